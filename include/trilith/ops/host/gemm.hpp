// Matrix products on the host, by oneDNN.
//
// dnnl_sgemm, not the matmul primitive with bias and GELU as post-ops: over the shapes of GPT-2 sgemm ran at
// or above the primitive's rate (weight gradients by up to 1.3 times), and what a post-op would save is
// saved by one pass of ours that adds the bias where it meets a GELU, a residual or a norm. `Accumulate`
// is sgemm's own.
#pragma once

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/gemm.hpp>
#include <trilith/ops/host/parallel.hpp>

namespace trilith::inline v0::ops {

namespace detail {

constexpr char letter(Transpose transpose) {
  return transpose == Transpose::yes ? 'T' : 'N';
}

}  // namespace detail

// c = op(a) · op(b), or c += op(a) · op(b); op transposes where asked.
// op(a): (rows, inner), op(b): (inner, columns), c: (rows, columns). Rows may be strided.
inline void gemm(const Host::Stream& stream, Transpose transpose_a, Matrix<const float> a,
                 Transpose transpose_b, Matrix<const float> b, Matrix<float> c,
                 Accumulate accumulate = Accumulate::no) {
  const Index rows = c.extent(0);
  const Index columns = c.extent(1);
  const Index inner = a.extent(transpose_a == Transpose::no ? 1 : 0);
  if (rows == 0 || columns == 0) return;
  // oneDNN takes the calling thread's team size. Where OpenMP then gave it fewer threads, as OMP_THREAD_LIMIT
  // and OMP_DYNAMIC let it, their part of the product would be left out without a word.
  omp_set_dynamic(0);
  omp_set_num_threads(
      std::min(stream.team(rows * columns * inner, parallel::least_multiply_adds), omp_get_thread_limit()));
  const dnnl_status_t status = dnnl_sgemm(detail::letter(transpose_a), detail::letter(transpose_b), rows,
                                          columns, inner, 1.0f, a.data(), a.stride(0), b.data(), b.stride(0),
                                          accumulate == Accumulate::yes ? 1.0f : 0.0f, c.data(), c.stride(0));
  if (status != dnnl_success) {
    throw Error("oneDNN refused a matrix product of " + std::to_string(rows) + " × " +
                    std::to_string(columns) + " × " + std::to_string(inner) + " (status " +
                    std::to_string(status) + ")",
                "check that every extent is positive");
  }
}

}  // namespace trilith::inline v0::ops
