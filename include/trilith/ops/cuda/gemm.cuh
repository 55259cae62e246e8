// Matrix products on a GPU, by cuBLASLt, alone and with what its epilogues do in the same pass.
//
// Where cuBLASLt has no algorithm for a product with its epilogue, the two are done one after the other.
// GELU has tanh in both, but of cuBLASLt's no error is stated, so only 16-bit elements are given to it.
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda/stream.cuh>
#include <trilith/kernels/elementwise.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/gelu.hpp>
#include <trilith/ops/cuda/gemm_key.hpp>
#include <trilith/ops/cuda/gemm_plans.cuh>
#include <trilith/ops/cuda/launch.hpp>
#include <trilith/ops/fused_gemm.hpp>
#include <trilith/ops/gemm.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// What an epilogue reads or writes besides the product.
struct Side {
  Epilogue epilogue;
  const void* vector = nullptr;
  const void* matrix = nullptr;
  Index stride = 0;  // of the matrix
};

// Enqueues the product with its epilogue. False, and nothing is done, where cuBLASLt can't.
template <class T, class C>
bool run_fused(const Cuda::Stream& stream, Transpose transpose_a, Matrix<const T> a, Transpose transpose_b,
               Matrix<const T> b, Matrix<C> c, const Side& side) {
  GemmPlans& plans = stream.kept<GemmPlans>();
  GemmKey key = gemm_key<T, C>(transpose_a, a, transpose_b, b, c, Accumulate::no);
  if (c.size() == 0 || key.inner == 0) return false;
  key.tf32 = plans.tf32;
  key.epilogue = side.epilogue;
  if (side.vector != nullptr) key.vector_alignment = alignment_of(side.vector);
  if (side.matrix != nullptr) {
    key.side_alignment = alignment_of(side.matrix);
    key.side_stride = std::max(side.stride, key.rows);  // of a single row it is of no account
    // See CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD.
    if (key.side_alignment < 16 || key.side_stride % 8 != 0) return false;
  }
  return plans.run(key, {.first = b.data(),
                         .second = a.data(),
                         .result = c.data(),
                         .side = const_cast<void*>(side.matrix),
                         .vector = const_cast<void*>(side.vector)});
}

}  // namespace detail

// From now on this stream's products of float32 matrices may be made in TF32, or, as at first, may not.
inline void allow_tf32(const Cuda::Stream& stream, bool allowed) {
  stream.kept<GemmPlans>().tf32 = allowed;
}

// c = op(a) · op(b), or c += op(a) · op(b); op transposes where asked.
// op(a): (rows, inner), op(b): (inner, columns), c: (rows, columns). Rows may be strided. c has the factors'
// type, or float.
template <class A, class B, class C>
requires std::same_as<std::remove_const_t<A>, std::remove_const_t<B>>
void gemm(const Cuda::Stream& stream, Transpose transpose_a, View<A, 2> a, Transpose transpose_b,
          View<B, 2> b, View<C, 2> c, Accumulate accumulate = Accumulate::no) {
  using T = std::remove_const_t<A>;
  GemmPlans& plans = stream.kept<GemmPlans>();
  GemmKey key =
      gemm_key<T, C>(transpose_a, Matrix<const T>(a), transpose_b, Matrix<const T>(b), c, accumulate);
  key.tf32 = plans.tf32;
  if (key.rows == 0 || key.columns == 0) return;
  if (key.inner == 0) {
    if (accumulate == Accumulate::yes) return;
    constexpr int n = kernels::widest<C>;
    return detail::launch_each<kernels::Fill<C>, n>(stream, c.extent(0), c.extent(1),
                                                    detail::rows_aligned<n>(c), {detail::rows_of(c), 0.0f});
  }
  if (!plans.run(key, {.first = b.data(), .second = a.data(), .result = c.data()})) {
    throw Error("cuBLASLt has no algorithm for a matrix product of " + std::to_string(key.columns) + " × " +
                    std::to_string(key.rows) + " × " + std::to_string(key.inner) + " with rows " +
                    std::to_string(key.second_stride) + ", " + std::to_string(key.first_stride) + " and " +
                    std::to_string(key.result_stride) + " elements apart",
                "use extents and strides that are multiples of 8");
  }
}

// As ops/fused_gemm.hpp says, each in one pass where cuBLASLt can.
template <class T>
void gemm_bias(const Cuda::Stream& stream, Transpose transpose_a, Matrix<const std::type_identity_t<T>> a,
               Transpose transpose_b, Matrix<const std::type_identity_t<T>> b,
               Vector<const std::type_identity_t<T>> bias, Matrix<T> c) {
  const detail::Side side{.epilogue = Epilogue::bias, .vector = bias.data()};
  if (detail::run_fused<T>(stream, transpose_a, a, transpose_b, b, c, side)) return;
  gemm(stream, transpose_a, a, transpose_b, b, c);
  add_bias(stream, bias, c);
}

template <class T>
void gemm_bias_gelu(const Cuda::Stream& stream, Transpose transpose_a,
                    Matrix<const std::type_identity_t<T>> a, Transpose transpose_b,
                    Matrix<const std::type_identity_t<T>> b, Vector<const std::type_identity_t<T>> bias,
                    Matrix<T> x, Matrix<std::type_identity_t<T>> y) {
  const detail::Side side{
      .epilogue = Epilogue::bias_gelu, .vector = bias.data(), .matrix = x.data(), .stride = x.stride(0)};
  if (half<T> && detail::run_fused<T>(stream, transpose_a, a, transpose_b, b, y, side)) return;
  gemm(stream, transpose_a, a, transpose_b, b, x);
  add_bias_gelu(stream, bias, x, y);
}

template <class T>
void gemm_gelu_backward(const Cuda::Stream& stream, Transpose transpose_a,
                        Matrix<const std::type_identity_t<T>> a, Transpose transpose_b,
                        Matrix<const std::type_identity_t<T>> b, Matrix<const std::type_identity_t<T>> x,
                        Matrix<T> d) {
  const detail::Side side{.epilogue = Epilogue::gelu_gradient, .matrix = x.data(), .stride = x.stride(0)};
  if (half<T> && detail::run_fused<T>(stream, transpose_a, a, transpose_b, b, d, side)) return;
  gemm(stream, transpose_a, a, transpose_b, b, d);
  gelu_backward(stream, x, d);
}

// cuBLASLt overwrites db, so a sum that is added to takes a pass of its own.
template <class T>
void gemm_bias_gradient(const Cuda::Stream& stream, Transpose transpose_a, Matrix<const T> a,
                        Transpose transpose_b, Matrix<const T> b, Matrix<float> c, Matrix<const T> dy,
                        Vector<float> db, Accumulate accumulate) {
  const bool is_a = transpose_a == Transpose::yes && dy.data() == a.data();
  const bool is_b = transpose_b == Transpose::no && dy.data() == b.data();
  if (accumulate == Accumulate::no && (is_a || is_b)) {
    const detail::Side side{.epilogue = is_b ? Epilogue::first_bias_gradient : Epilogue::second_bias_gradient,
                            .vector = db.data()};
    if (detail::run_fused<T>(stream, transpose_a, a, transpose_b, b, c, side)) return;
  }
  gemm(stream, transpose_a, a, transpose_b, b, c, accumulate);
  bias_gradient(stream, dy, db, accumulate);
}

}  // namespace trilith::inline v0::ops
