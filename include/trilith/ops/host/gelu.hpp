// GELU as GPT-2 computes it, with tanh: Hendrycks, Gimpel, "Gaussian error linear units", 2016.
//
//     gelu(x) = x · (1 + tanh u) / 2 = x · σ(2u),    2u = √(8/π) · (x + 0.044715 x³)
//
// by (1 + tanh u) / 2 = σ(2u) = 1 / (1 + q), q = e^(−2u), the logistic function, whose slope is
// q / (1 + q)²: no difference cancels. x is bounded to [−9.9, 9.9] before, so nothing overflows; beyond, σ
// is 1 or less than 2e-37. For finite x the error is at most 2e-7 · |x| for gelu, at most 4e-7 for its
// derivative. NaN stays NaN.
#pragma once

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

namespace detail {

inline constexpr float gelu_linear = 1.5957691216057308f;  // √(8/π)
inline constexpr float gelu_cubic = 0.044715f;

struct GeluGate {
  simd::Floats x;      // bounded
  simd::Floats value;  // σ(2u)
  simd::Floats slope;  // σ'(2u)
};

inline GeluGate gelu_gate(simd::Floats x) {
  using simd::Floats;
  // In this order of arguments min and max hand NaN on; gelu and its derivative multiply by x or `bounded`.
  const Floats bounded = simd::min(simd::broadcast(9.9f), simd::max(simd::broadcast(-9.9f), x));
  const Floats argument = bounded * gelu_linear * (gelu_cubic * bounded * bounded + 1.0f);  // within ±85.1
  const Floats q = simd::exp_bounded(-argument);
  const Floats value = 1.0f / (q + 1.0f);
  return {bounded, value, q * value * value};
}

inline simd::Floats gelu(simd::Floats x) {
  return x * gelu_gate(x).value;
}

inline simd::Floats gelu_derivative(simd::Floats x) {
  const GeluGate gate = gelu_gate(x);
  const simd::Floats d_argument = gelu_linear * (3.0f * gelu_cubic * gate.x * gate.x + 1.0f);  // d(2u)/dx
  return gate.value + gate.x * gate.slope * d_argument;
}

}  // namespace detail

// y = gelu(x). y may be x itself.
inline void gelu(const Host::Stream& stream, Matrix<const float> x, Matrix<float> y) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const float* const from = &x(row, 0);
      float* const to = &y(row, 0);
      simd::for_each_vector(x.extent(1), [&](Index i, auto w) {
        simd::store_first(to + i, detail::gelu(simd::load_first(from + i, w)), w);
      });
    }
  });
}

// x += bias, in place, and y = gelu(x): the backward pass needs x.
inline void add_bias_gelu(const Host::Stream& stream, Vector<const float> bias, Matrix<float> x,
                          Matrix<float> y) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      float* const biased = &x(row, 0);
      float* const to = &y(row, 0);
      simd::for_each_vector(x.extent(1), [&](Index i, auto w) {
        const simd::Floats sum = simd::load_first(biased + i, w) + simd::load_first(&bias(i), w);
        simd::store_first(biased + i, sum, w);
        simd::store_first(to + i, detail::gelu(sum), w);
      });
    }
  });
}

// d = d · gelu'(x), in place: the gradient of the output becomes that of x, the input of gelu.
inline void gelu_backward(const Host::Stream& stream, Matrix<const float> x, Matrix<float> d) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const float* const from = &x(row, 0);
      float* const to = &d(row, 0);
      simd::for_each_vector(x.extent(1), [&](Index i, auto w) {
        const simd::Floats slope = detail::gelu_derivative(simd::load_first(from + i, w));
        simd::store_first(to + i, simd::load_first(to + i, w) * slope, w);
      });
    }
  });
}

}  // namespace trilith::inline v0::ops
