// RmsNorm on streams that run kernels; see ops/host/rms_norm.hpp. rstd and the gradient of gamma are float32.
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

// y and rstd of x. y may be x itself.
template <kernel_stream S, kernels::element T>
void rms_norm(const S& stream, Matrix<const std::type_identity_t<T>> x,
              Vector<const std::type_identity_t<T>> gamma, float epsilon, Matrix<T> y, Vector<float> rstd) {
  detail::launch_norm<kernels::NormKind::rms>(stream, detail::rows_aligned<kernels::widest<T>>(x, gamma, y),
                                              detail::norm_params<T>(x, gamma, epsilon, y, rstd));
}

// x = x + residual, in place, then y and rstd of that: add and rms_norm in one pass over memory, with the
// same bits.
template <kernel_stream S, kernels::element T>
void add_residual_rms_norm(const S& stream, Matrix<const std::type_identity_t<T>> residual,
                           Matrix<std::type_identity_t<T>> x, Vector<const std::type_identity_t<T>> gamma,
                           float epsilon, Matrix<T> y, Vector<float> rstd) {
  auto params = detail::norm_params<T>(x, gamma, epsilon, y, rstd);
  params.residual = detail::rows_of(residual);
  params.sum = detail::rows_of(x);
  detail::launch_norm<kernels::NormKind::rms>(
      stream, detail::rows_aligned<kernels::widest<T>>(residual, x, gamma, y), params);
}

// dx = d_residual + the gradient through the norm, for a norm whose input also goes round it in a residual
// connection; d_gamma is overwritten or added to. dx may be d_residual or dy itself.
template <kernel_stream S, kernels::element T>
void rms_norm_backward(const S& stream, Matrix<const std::type_identity_t<T>> dy,
                       Matrix<const std::type_identity_t<T>> x, Vector<const std::type_identity_t<T>> gamma,
                       Vector<const float> rstd, Matrix<const std::type_identity_t<T>> d_residual,
                       Matrix<T> dx, Vector<float> d_gamma, Accumulate accumulate) {
  detail::launch_norm_backward<kernels::NormKind::rms, S, T>(stream, dy, x, gamma, {}, rstd, d_residual, dx,
                                                             {d_gamma}, accumulate);
}

// The same without d_residual.
template <kernel_stream S, kernels::element T>
void rms_norm_backward(const S& stream, Matrix<const std::type_identity_t<T>> dy,
                       Matrix<const std::type_identity_t<T>> x, Vector<const std::type_identity_t<T>> gamma,
                       Vector<const float> rstd, Matrix<T> dx, Vector<float> d_gamma, Accumulate accumulate) {
  rms_norm_backward(stream, dy, x, gamma, rstd, Matrix<const T>(), dx, d_gamma, accumulate);
}

}  // namespace trilith::inline v0::ops
