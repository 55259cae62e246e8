// Root mean square normalisation: Zhang, Sennrich, "Root mean square layer normalization", 2019. In each row
//
//     y = x · rstd · gamma,    rstd = 1 / √(mean of x² + epsilon).
//
// x, y and their gradients are (batch · sequence, hidden), gamma (hidden), rstd (batch · sequence), kept for
// the backward pass. Rows may be strided. A row whose squares add up beyond float32, with values of about
// 1e19, becomes zeros.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host/elementwise.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

namespace detail {

inline void rms_norm(Index width, const float* x, const float* gamma, float epsilon, float* y, float& rstd) {
  using simd::Floats;
  const Floats squares = simd::sum_vectors(width, [&](Index i, auto w) {
    const Floats value = simd::load_first(x + i, w);
    return value * value;
  });
  const float factor = 1.0f / std::sqrt(simd::sum(squares) / static_cast<float>(width) + epsilon);
  simd::for_each_vector(width, [&](Index i, auto w) {
    simd::store_first(y + i, simd::load_first(x + i, w) * factor * simd::load_first(gamma + i, w), w);
  });
  rstd = factor;
}

// `d_residual` is null where nothing is added.
struct RmsNormRow {
  const float* dy;
  const float* x;
  const float* gamma;
  float rstd;
  const float* d_residual;
};

// With x̂ = x · rstd and g = dy · gamma:
//     dx = rstd · (g − x̂ · mean of g · x̂),    d_gamma += dy · x̂.
inline void rms_norm_backward(Index width, const RmsNormRow& row, float* dx, float* d_gamma) {
  using simd::Floats;
  Floats sum{};
  simd::for_each_vector(width, [&](Index i, auto w) {
    const Floats gradient = simd::load_first(row.dy + i, w) * (simd::load_first(row.x + i, w) * row.rstd);
    sum += gradient * simd::load_first(row.gamma + i, w);
    simd::store_first(d_gamma + i, simd::load_first(d_gamma + i, w) + gradient, w);
  });
  const float mean = simd::sum(sum) / static_cast<float>(width);
  simd::for_each_vector(width, [&](Index i, auto w) {
    const Floats normal = simd::load_first(row.x + i, w) * row.rstd;
    const Floats scaled = simd::load_first(row.dy + i, w) * simd::load_first(row.gamma + i, w);
    Floats result = (scaled - normal * mean) * row.rstd;
    if (row.d_residual != nullptr) result += simd::load_first(row.d_residual + i, w);
    simd::store_first(dx + i, result, w);
  });
}

// Each chunk of rows sums its part of d_gamma in a scratch row of its own.
inline void rms_norm_backward(const Host::Stream& stream, Matrix<const float> dy, Matrix<const float> x,
                              Vector<const float> gamma, Vector<const float> rstd,
                              const Matrix<const float>* d_residual, Matrix<float> dx, Vector<float> d_gamma,
                              Accumulate accumulate) {
  const Index width = x.extent(1);
  const parallel::RowChunks chunks(x.extent(0));
  std::vector<float> scratch(static_cast<std::size_t>(chunks.count * width));
  const Matrix<float> gamma_parts(scratch.data(), {chunks.count, width});

  parallel::chunked_rows(stream, chunks, width, [&](Index chunk, Index row) {
    const RmsNormRow inputs{.dy = &dy(row, 0),
                            .x = &x(row, 0),
                            .gamma = gamma.data(),
                            .rstd = rstd(row),
                            .d_residual = d_residual == nullptr ? nullptr : &(*d_residual)(row, 0)};
    rms_norm_backward(width, inputs, &dx(row, 0), &gamma_parts(chunk, 0));
  });
  bias_gradient(stream, gamma_parts, d_gamma, accumulate);
}

}  // namespace detail

// y and rstd of x. y may be x itself.
inline void rms_norm(const Host::Stream& stream, Matrix<const float> x, Vector<const float> gamma,
                     float epsilon, Matrix<float> y, Vector<float> rstd) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      detail::rms_norm(x.extent(1), &x(row, 0), gamma.data(), epsilon, &y(row, 0), rstd(row));
    }
  });
}

// x = x + residual, in place, then y and rstd of that: add and rms_norm in one pass over memory, with the
// same bits.
inline void add_residual_rms_norm(const Host::Stream& stream, Matrix<const float> residual, Matrix<float> x,
                                  Vector<const float> gamma, float epsilon, Matrix<float> y,
                                  Vector<float> rstd) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      detail::add(x.extent(1), &residual(row, 0), &x(row, 0));
      detail::rms_norm(x.extent(1), &x(row, 0), gamma.data(), epsilon, &y(row, 0), rstd(row));
    }
  });
}

// dx = the gradient through the norm; d_gamma is overwritten or added to. dx may be dy itself. Takes scratch
// memory of at most 64 rows.
inline void rms_norm_backward(const Host::Stream& stream, Matrix<const float> dy, Matrix<const float> x,
                              Vector<const float> gamma, Vector<const float> rstd, Matrix<float> dx,
                              Vector<float> d_gamma, Accumulate accumulate) {
  detail::rms_norm_backward(stream, dy, x, gamma, rstd, nullptr, dx, d_gamma, accumulate);
}

// The same with dx = d_residual + the gradient through the norm, for a norm whose input also goes round it
// in a residual connection. dx may be d_residual or dy itself.
inline void rms_norm_backward(const Host::Stream& stream, Matrix<const float> dy, Matrix<const float> x,
                              Vector<const float> gamma, Vector<const float> rstd,
                              Matrix<const float> d_residual, Matrix<float> dx, Vector<float> d_gamma,
                              Accumulate accumulate) {
  detail::rms_norm_backward(stream, dy, x, gamma, rstd, &d_residual, dx, d_gamma, accumulate);
}

}  // namespace trilith::inline v0::ops
