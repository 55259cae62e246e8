// SwiGLU on streams that run kernels; see ops/host/swiglu.hpp, and kernels/swiglu.hpp for the error.
#pragma once

#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/swiglu.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// y = silu(gate) · up. y may be gate or up itself.
template <kernel_stream S, kernels::element T>
void swiglu(const S& stream, Matrix<const std::type_identity_t<T>> gate,
            Matrix<const std::type_identity_t<T>> up, Matrix<T> y) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::Swiglu<T>, n>(
      stream, y.extent(0), y.extent(1), detail::rows_aligned<n>(gate, up, y),
      {detail::rows_of(gate), detail::rows_of(up), detail::rows_of(y)});
}

// d_gate = dy · up · silu'(gate) and d_up = dy · silu(gate). Each may be gate, up or dy itself.
template <kernel_stream S, kernels::element T>
void swiglu_backward(const S& stream, Matrix<const std::type_identity_t<T>> gate,
                     Matrix<const std::type_identity_t<T>> up, Matrix<const std::type_identity_t<T>> dy,
                     Matrix<std::type_identity_t<T>> d_gate, Matrix<T> d_up) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::SwigluBackward<T>, n>(
      stream, dy.extent(0), dy.extent(1), detail::rows_aligned<n>(gate, up, dy, d_gate, d_up),
      {detail::rows_of(gate), detail::rows_of(up), detail::rows_of(dy), detail::rows_of(d_gate),
       detail::rows_of(d_up)});
}

}  // namespace trilith::inline v0::ops
