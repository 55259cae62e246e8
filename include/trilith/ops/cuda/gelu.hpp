// GELU on streams that run kernels; see ops/host/gelu.hpp, and kernels/gelu.hpp for the error.
#pragma once

#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/gelu.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// y = gelu(x). y may be x itself.
template <kernel_stream S, kernels::element T>
void gelu(const S& stream, Matrix<const std::type_identity_t<T>> x, Matrix<T> y) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::Gelu<T>, n>(stream, y.extent(0), y.extent(1), detail::rows_aligned<n>(x, y),
                                           {detail::rows_of(x), detail::rows_of(y)});
}

// x += bias, in place, and y = gelu(x) of what x is after rounding, which the backward pass needs.
template <kernel_stream S, kernels::element T>
void add_bias_gelu(const S& stream, Vector<const std::type_identity_t<T>> bias,
                   Matrix<std::type_identity_t<T>> x, Matrix<T> y) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::AddBiasGelu<T>, n>(
      stream, y.extent(0), y.extent(1), detail::rows_aligned<n>(bias, x, y),
      {detail::span_of(bias), detail::rows_of(x), detail::rows_of(y)});
}

// d = d · gelu'(x), in place: the gradient of the output becomes that of x, the input of gelu.
template <kernel_stream S, kernels::element T>
void gelu_backward(const S& stream, Matrix<const std::type_identity_t<T>> x, Matrix<T> d) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::GeluBackward<T>, n>(stream, d.extent(0), d.extent(1),
                                                   detail::rows_aligned<n>(x, d),
                                                   {detail::rows_of(x), detail::rows_of(d)});
}

}  // namespace trilith::inline v0::ops
