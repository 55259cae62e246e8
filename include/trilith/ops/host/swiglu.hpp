// SwiGLU: Shazeer, "GLU variants improve transformer", 2020.
//
//     y = silu(gate) · up,    silu(x) = x · σ(x) = x / (1 + q),    q = e^(−x),
//
// by 1 − σ = q · σ: no difference cancels. In q, x is bounded to [−86, 86], so nothing overflows: above, σ is
// 1; below, silu(x) stays at silu(−86) = −4e-36, where it should go on to −0. Elsewhere the relative error of
// y is at most 5e-7 (of which q has half); that of silu'(x) is at most 4e-7, absolute. NaN stays NaN.
//
// All matrices are (batch · sequence, feed-forward); rows may be strided.
#pragma once

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

namespace detail {

struct Silu {
  simd::Floats value;
  simd::Floats slope;  // silu'(x) = σ · (1 + x · (1 − σ))
};

inline Silu silu(simd::Floats x) {
  using simd::Floats;
  // In this order of arguments max and min hand NaN on.
  const Floats above = simd::max(simd::broadcast(-86.0f), x);
  const Floats bounded = simd::min(simd::broadcast(86.0f), above);
  const Floats q = simd::exp_bounded(-bounded);
  const Floats sigma = 1.0f / (q + 1.0f);
  return {above * sigma, sigma * (bounded * (q * sigma) + 1.0f)};
}

}  // namespace detail

// y = silu(gate) · up. y may be gate or up itself.
inline void swiglu(const Host::Stream& stream, Matrix<const float> gate, Matrix<const float> up,
                   Matrix<float> y) {
  parallel::rows(stream, y.extent(0), y.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const float* const gates = &gate(row, 0);
      const float* const ups = &up(row, 0);
      float* const to = &y(row, 0);
      simd::for_each_vector(y.extent(1), [&](Index i, auto w) {
        const simd::Floats value = detail::silu(simd::load_first(gates + i, w)).value;
        simd::store_first(to + i, value * simd::load_first(ups + i, w), w);
      });
    }
  });
}

// d_gate = dy · up · silu'(gate) and d_up = dy · silu(gate). Each may be gate, up or dy itself.
inline void swiglu_backward(const Host::Stream& stream, Matrix<const float> gate, Matrix<const float> up,
                            Matrix<const float> dy, Matrix<float> d_gate, Matrix<float> d_up) {
  parallel::rows(stream, dy.extent(0), dy.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const float* const gates = &gate(row, 0);
      const float* const ups = &up(row, 0);
      const float* const from = &dy(row, 0);
      float* const to_gate = &d_gate(row, 0);
      float* const to_up = &d_up(row, 0);
      simd::for_each_vector(dy.extent(1), [&](Index i, auto w) {
        const detail::Silu silu = detail::silu(simd::load_first(gates + i, w));
        const simd::Floats d = simd::load_first(from + i, w);
        const simd::Floats d_gated = d * simd::load_first(ups + i, w) * silu.slope;
        simd::store_first(to_gate + i, d_gated, w);
        simd::store_first(to_up + i, d * silu.value, w);
      });
    }
  });
}

}  // namespace trilith::inline v0::ops
