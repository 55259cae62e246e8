// LayerNorm on streams that run kernels; see ops/host/layer_norm.hpp. Statistics and the gradients of gamma
// and beta are float32.
#pragma once

#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/norm.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/cuda/launch.hpp>
#include <trilith/ops/cuda/norm.hpp>

namespace trilith::inline v0::ops {

// y, mean and rstd of x. y may be x itself.
template <kernel_stream S, kernels::element T>
void layer_norm(const S& stream, Matrix<const std::type_identity_t<T>> x,
                Vector<const std::type_identity_t<T>> gamma, Vector<const std::type_identity_t<T>> beta,
                float epsilon, Matrix<T> y, Vector<float> mean, Vector<float> rstd) {
  auto params = detail::norm_params<T>(x, gamma, epsilon, y, rstd);
  params.beta = detail::span_of(beta);
  params.mean = detail::span_of(mean);
  detail::launch_norm<kernels::NormKind::layer>(
      stream, detail::rows_aligned<kernels::widest<T>>(x, gamma, beta, y), params);
}

// x = (x + bias) + residual, in place, then y, mean and rstd of that: add_bias_residual and layer_norm in one
// pass over memory, with the same bits.
template <kernel_stream S, kernels::element T>
void add_bias_residual_layer_norm(const S& stream, Vector<const std::type_identity_t<T>> bias,
                                  Matrix<const std::type_identity_t<T>> residual,
                                  Matrix<std::type_identity_t<T>> x,
                                  Vector<const std::type_identity_t<T>> gamma,
                                  Vector<const std::type_identity_t<T>> beta, float epsilon, Matrix<T> y,
                                  Vector<float> mean, Vector<float> rstd) {
  auto params = detail::norm_params<T>(x, gamma, epsilon, y, rstd);
  params.bias = detail::span_of(bias);
  params.residual = detail::rows_of(residual);
  params.sum = detail::rows_of(x);
  params.beta = detail::span_of(beta);
  params.mean = detail::span_of(mean);
  detail::launch_norm<kernels::NormKind::layer>(
      stream, detail::rows_aligned<kernels::widest<T>>(bias, residual, x, gamma, beta, y), params);
}

// dx = d_residual + the gradient through the norm, for a norm whose input also goes round it in a residual
// connection; d_gamma and d_beta are overwritten or added to. dx may be d_residual or dy itself.
template <kernel_stream S, kernels::element T>
void layer_norm_backward(const S& stream, Matrix<const std::type_identity_t<T>> dy,
                         Matrix<const std::type_identity_t<T>> x, Vector<const std::type_identity_t<T>> gamma,
                         Vector<const float> mean, Vector<const float> rstd,
                         Matrix<const std::type_identity_t<T>> d_residual, Matrix<T> dx,
                         Vector<float> d_gamma, Vector<float> d_beta, Accumulate accumulate) {
  detail::launch_norm_backward<kernels::NormKind::layer, S, T>(stream, dy, x, gamma, mean, rstd, d_residual,
                                                               dx, {d_gamma, d_beta}, accumulate);
}

// The same without d_residual.
template <kernel_stream S, kernels::element T>
void layer_norm_backward(const S& stream, Matrix<const std::type_identity_t<T>> dy,
                         Matrix<const std::type_identity_t<T>> x, Vector<const std::type_identity_t<T>> gamma,
                         Vector<const float> mean, Vector<const float> rstd, Matrix<T> dx,
                         Vector<float> d_gamma, Vector<float> d_beta, Accumulate accumulate) {
  layer_norm_backward(stream, dy, x, gamma, mean, rstd, Matrix<const T>(), dx, d_gamma, d_beta, accumulate);
}

}  // namespace trilith::inline v0::ops
