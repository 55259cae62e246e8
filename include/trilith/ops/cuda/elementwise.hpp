// Additions of biases, residuals and gradients, copies and fills on streams that run kernels; see
// ops/host/elementwise.hpp. Sums and factors are float32, rounded once, when they are stored.
#pragma once

#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/column_sums.hpp>
#include <trilith/kernels/copy_heads.hpp>
#include <trilith/kernels/elementwise.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// x += bias in every row, in place.
template <kernel_stream S, kernels::element T>
void add_bias(const S& stream, Vector<const std::type_identity_t<T>> bias, Matrix<T> x) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::AddBias<T>, n>(stream, x.extent(0), x.extent(1),
                                              detail::rows_aligned<n>(bias, x),
                                              {detail::span_of(bias), detail::rows_of(x)});
}

// x = (x + bias) + residual, in place.
template <kernel_stream S, kernels::element T>
void add_bias_residual(const S& stream, Vector<const std::type_identity_t<T>> bias,
                       Matrix<const std::type_identity_t<T>> residual, Matrix<T> x) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::AddBiasResidual<T>, n>(
      stream, x.extent(0), x.extent(1), detail::rows_aligned<n>(bias, residual, x),
      {detail::span_of(bias), detail::rows_of(residual), detail::rows_of(x)});
}

// db = or += the sum of the rows of dy, in float32 and in an order that depends on its shape only. dy is
// of any element type.
template <kernel_stream S, class E>
void bias_gradient(const S& stream, Matrix<E> dy, Vector<float> db, Accumulate accumulate) {
  using T = std::remove_const_t<E>;
  constexpr int n = kernels::widest<T>;
  detail::launch_column_sums<kernels::BiasTerms<T>, n>(stream, dy.extent(0), detail::rows_aligned<n>(dy),
                                                       {detail::rows_of(dy)}, accumulate, {db});
}

// y += x
template <kernel_stream S, kernels::element T>
void add(const S& stream, Vector<const std::type_identity_t<T>> x, Vector<T> y) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::Add<T>, n>(stream, 1, y.size(), detail::rows_aligned<n>(x, y),
                                          {detail::rows_of(x), detail::rows_of(y)});
}

// y *= factor
template <kernel_stream S, kernels::element T>
void scale(const S& stream, float factor, Vector<T> y) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::Scale<T>, n>(stream, 1, y.size(), detail::rows_aligned<n>(y),
                                            {detail::rows_of(y), factor});
}

// y = value: on streams without libraries.
template <kernel_stream S, kernels::element T>
void fill(const S& stream, Vector<T> y, float value) {
  static_assert(!library_stream<S>,
                "fill: on this stream Thrust fills; include trilith/ops/cuda/algorithms.cuh");
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::Fill<T>, n>(stream, 1, y.size(), detail::rows_aligned<n>(y),
                                           {detail::rows_of(y), value});
}

// to = from, rounded where `to` has the narrower elements; the two must not overlap.
template <kernel_stream S, class From, kernels::element To>
void copy(const S& stream, Vector<From> from, Vector<To> to) {
  using Source = std::remove_const_t<From>;
  constexpr int n = kernels::widest<Source, To>;
  detail::launch_each<kernels::Copy<Source, To>, n>(stream, 1, to.size(), detail::rows_aligned<n>(from, to),
                                                    {detail::rows_of(from), detail::rows_of(to)});
}

// The same for (batch, rows, heads, dimension), strided in all but the last.
template <kernel_stream S, class From, kernels::element To>
void copy(const S& stream, View<From, 4> from, View<To, 4> to) {
  using Source = std::remove_const_t<From>;
  constexpr int n = kernels::widest<Source, To>;
  detail::launch_each_head<kernels::CopyHeads<Source, To>, n>(
      stream, to, to.extent(3), detail::rows_aligned<n>(from, to),
      {detail::head_tensor(View<const Source, 4>(from)), detail::head_tensor(to)});
}

}  // namespace trilith::inline v0::ops
