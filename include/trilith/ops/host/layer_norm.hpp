// Layer normalisation: Ba, Kiros, Hinton, "Layer normalization", 2016. In each row
//
//     y = (x − mean) · rstd · gamma + beta,    rstd = 1 / √(mean of (x − mean)² + epsilon).
//
// x, y and their gradients are (batch · sequence, hidden), gamma and beta (hidden), mean and rstd
// (batch · sequence), kept for the backward pass. Rows may be strided. The variance takes a second pass over
// the row, which is in the first-level cache by then: mean of x² minus mean² would cancel.
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

inline void layer_norm(Index width, const float* x, const float* gamma, const float* beta, float epsilon,
                       float* y, float& mean, float& rstd) {
  using simd::Floats;
  const Floats sum = simd::sum_vectors(width, [&](Index i, auto w) { return simd::load_first(x + i, w); });
  const float center = simd::sum(sum) / static_cast<float>(width);
  const Floats squares = simd::sum_vectors(width, [&](Index i, auto w) {
    const Floats deviation = simd::load_first(x + i, w, center) - center;
    return deviation * deviation;
  });
  const float variance = simd::sum(squares) / static_cast<float>(width);
  const float factor = 1.0f / std::sqrt(variance + epsilon);
  simd::for_each_vector(width, [&](Index i, auto w) {
    const Floats normal = (simd::load_first(x + i, w) - center) * factor;
    simd::store_first(y + i, normal * simd::load_first(gamma + i, w) + simd::load_first(beta + i, w), w);
  });
  mean = center;
  rstd = factor;
}

// `d_residual` is null where nothing is added.
struct LayerNormRow {
  const float* dy;
  const float* x;
  const float* gamma;
  float mean;
  float rstd;
  const float* d_residual;
};

// With x̂ = (x − mean) · rstd and g = dy · gamma:
//     dx = rstd · (g − mean of g − x̂ · mean of g · x̂),    d_gamma += dy · x̂,    d_beta += dy.
inline void layer_norm_backward(Index width, const LayerNormRow& row, float* dx, float* d_gamma,
                                float* d_beta) {
  using simd::Floats;
  Floats sum{};
  Floats sum_normal{};
  simd::for_each_vector(width, [&](Index i, auto w) {
    const Floats dy = simd::load_first(row.dy + i, w);
    const Floats normal = (simd::load_first(row.x + i, w) - row.mean) * row.rstd;
    const Floats scaled = dy * simd::load_first(row.gamma + i, w);
    sum += scaled;
    sum_normal += scaled * normal;
    simd::store_first(d_gamma + i, simd::load_first(d_gamma + i, w) + dy * normal, w);
    simd::store_first(d_beta + i, simd::load_first(d_beta + i, w) + dy, w);
  });
  const float mean = simd::sum(sum) / static_cast<float>(width);
  const float mean_normal = simd::sum(sum_normal) / static_cast<float>(width);
  simd::for_each_vector(width, [&](Index i, auto w) {
    const Floats normal = (simd::load_first(row.x + i, w) - row.mean) * row.rstd;
    const Floats scaled = simd::load_first(row.dy + i, w) * simd::load_first(row.gamma + i, w);
    Floats result = (scaled - mean - normal * mean_normal) * row.rstd;
    if (row.d_residual != nullptr) result += simd::load_first(row.d_residual + i, w);
    simd::store_first(dx + i, result, w);
  });
}

// Each chunk of rows sums its part of d_gamma and d_beta in a scratch row of its own.
inline void layer_norm_backward(const Host::Stream& stream, Matrix<const float> dy, Matrix<const float> x,
                                Vector<const float> gamma, Vector<const float> mean, Vector<const float> rstd,
                                const Matrix<const float>* d_residual, Matrix<float> dx,
                                Vector<float> d_gamma, Vector<float> d_beta, Accumulate accumulate) {
  const Index width = x.extent(1);
  const parallel::RowChunks chunks(x.extent(0));
  std::vector<float> scratch(static_cast<std::size_t>(chunks.count * 2 * width));
  const Matrix<float> gamma_parts(scratch.data(), {chunks.count, width}, {2 * width, 1});
  const Matrix<float> beta_parts(scratch.data() + width, {chunks.count, width}, {2 * width, 1});

  parallel::chunked_rows(stream, chunks, width, [&](Index chunk, Index row) {
    const LayerNormRow inputs{.dy = &dy(row, 0),
                              .x = &x(row, 0),
                              .gamma = gamma.data(),
                              .mean = mean(row),
                              .rstd = rstd(row),
                              .d_residual = d_residual == nullptr ? nullptr : &(*d_residual)(row, 0)};
    layer_norm_backward(width, inputs, &dx(row, 0), &gamma_parts(chunk, 0), &beta_parts(chunk, 0));
  });
  bias_gradient(stream, gamma_parts, d_gamma, accumulate);
  bias_gradient(stream, beta_parts, d_beta, accumulate);
}

}  // namespace detail

// y, mean and rstd of x. y may be x itself.
inline void layer_norm(const Host::Stream& stream, Matrix<const float> x, Vector<const float> gamma,
                       Vector<const float> beta, float epsilon, Matrix<float> y, Vector<float> mean,
                       Vector<float> rstd) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      detail::layer_norm(x.extent(1), &x(row, 0), gamma.data(), beta.data(), epsilon, &y(row, 0), mean(row),
                         rstd(row));
    }
  });
}

// x = (x + bias) + residual, in place, then y, mean and rstd of that: add_bias_residual and layer_norm in
// one pass over memory, with the same bits.
inline void add_bias_residual_layer_norm(const Host::Stream& stream, Vector<const float> bias,
                                         Matrix<const float> residual, Matrix<float> x,
                                         Vector<const float> gamma, Vector<const float> beta, float epsilon,
                                         Matrix<float> y, Vector<float> mean, Vector<float> rstd) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      detail::add_bias_residual(x.extent(1), bias.data(), &residual(row, 0), &x(row, 0));
      detail::layer_norm(x.extent(1), &x(row, 0), gamma.data(), beta.data(), epsilon, &y(row, 0), mean(row),
                         rstd(row));
    }
  });
}

// dx = the gradient through the norm; d_gamma and d_beta are overwritten or added to. dx may be dy itself.
// Takes scratch memory of at most 128 rows.
inline void layer_norm_backward(const Host::Stream& stream, Matrix<const float> dy, Matrix<const float> x,
                                Vector<const float> gamma, Vector<const float> mean, Vector<const float> rstd,
                                Matrix<float> dx, Vector<float> d_gamma, Vector<float> d_beta,
                                Accumulate accumulate) {
  detail::layer_norm_backward(stream, dy, x, gamma, mean, rstd, nullptr, dx, d_gamma, d_beta, accumulate);
}

// The same with dx = d_residual + the gradient through the norm, for a norm whose input also goes round it
// in a residual connection. dx may be d_residual or dy itself.
inline void layer_norm_backward(const Host::Stream& stream, Matrix<const float> dy, Matrix<const float> x,
                                Vector<const float> gamma, Vector<const float> mean, Vector<const float> rstd,
                                Matrix<const float> d_residual, Matrix<float> dx, Vector<float> d_gamma,
                                Vector<float> d_beta, Accumulate accumulate) {
  detail::layer_norm_backward(stream, dy, x, gamma, mean, rstd, &d_residual, dx, d_gamma, d_beta, accumulate);
}

}  // namespace trilith::inline v0::ops
