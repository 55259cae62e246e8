// GELU with tanh and its derivative, by the formulas of ops/host/gelu.hpp: operations for EachPack.
//
//     gelu(x) = x · σ(2u),    2u = √(8/π) · (x + 0.044715 x³),    σ(2u) = 1 / (1 + q),    q = e^(−2u)
//
// x is bounded to [−9.9, 9.9] in σ. The error is at most 2e-7 · |x| for gelu and 6e-7 for its derivative,
// before rounding. NaN stays NaN.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/exponential.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

struct GeluGate {
  float x;      // bounded
  float value;  // σ(2u)
  float slope;  // σ'(2u)
};

constexpr float gelu_linear = 1.5957691216057308f;  // √(8/π)
constexpr float gelu_cubic = 0.044715f;

template <simt::lane Lane>
TRILITH_DEVICE GeluGate gelu_gate(Lane& lane, float x) {
  const float bounded = x < -9.9f ? -9.9f : x > 9.9f ? 9.9f : x;
  const float argument = bounded * gelu_linear * (gelu_cubic * bounded * bounded + 1.0f);
  const float q = exponential(lane, -argument);
  const float value = lane.reciprocal(q + 1.0f);
  return {bounded, value, q * value * value};
}

template <simt::lane Lane, int N>
TRILITH_DEVICE Floats<N> gelu(Lane& lane, const Floats<N>& x) {
  return map(x, [&lane](float each) { return each * gelu_gate(lane, each).value; });
}

template <simt::lane Lane, int N>
TRILITH_DEVICE Floats<N> gelu_derivative(Lane& lane, const Floats<N>& x) {
  return map(x, [&lane](float each) {
    const GeluGate gate = gelu_gate(lane, each);
    const float d_argument = gelu_linear * (3.0f * gelu_cubic * gate.x * gate.x + 1.0f);  // d(2u)/dx
    return gate.value + gate.x * gate.slope * d_argument;
  });
}

// y = gelu(x)
template <element T>
struct Gelu {
  static constexpr const char* name = "gelu";
  struct Params {
    StridedRows<const T> x;
    StridedRows<T> y;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    store_floats(lane, p.y, row, column, gelu(lane, load_floats<N>(lane, p.x, row, column)));
  }
};

// x += bias, y = gelu(x)
template <element T>
struct AddBiasGelu {
  static constexpr const char* name = "add_bias_gelu";
  struct Params {
    simt::Global<const T> bias;
    StridedRows<T> x;
    StridedRows<T> y;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> bias = load_floats<N>(lane, p.bias, column);
    const simt::Pack<T, N> x = to_pack<T>(load_floats<N>(lane, p.x, row, column) + bias);
    lane.store(p.x.elements, p.x.at(row, column), x);
    store_floats(lane, p.y, row, column, gelu(lane, to_floats(x)));
  }
};

// d *= gelu'(x)
template <element T>
struct GeluBackward {
  static constexpr const char* name = "gelu_backward";
  struct Params {
    StridedRows<const T> x;
    StridedRows<T> d;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> slope = gelu_derivative(lane, load_floats<N>(lane, p.x, row, column));
    store_floats(lane, p.d, row, column, load_floats<N>(lane, p.d, row, column) * slope);
  }
};

}  // namespace trilith::inline v0::kernels
