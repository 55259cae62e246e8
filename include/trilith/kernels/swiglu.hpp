// SwiGLU and its gradients, by the formulas of ops/host/swiglu.hpp: operations for EachPack.
//
//     y = silu(gate) · up,    silu(x) = x · σ(x) = x / (1 + q),    q = e^(−x)
//
// In q, x is at least −86; below, silu(x) stays at silu(−86) = −4e-36. Elsewhere the relative error
// of y is at most 8e-7 + 6e-8 · max(−x, 0), that of silu'(x) 6e-7, absolute, before rounding. NaN stays NaN.
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

struct Silu {
  float value;
  float slope;  // silu'(x) = σ · (1 + x · (1 − σ)), with 1 − σ = q · σ: no difference cancels
};

template <simt::lane Lane>
TRILITH_DEVICE Silu silu(Lane& lane, float x) {
  const float above = x < -86.0f ? -86.0f : x;
  const float q = exponential(lane, -above);
  const float sigma = lane.reciprocal(q + 1.0f);
  const float bounded = above > 86.0f ? 86.0f : above;  // ∞ · q would be NaN
  return {above * sigma, sigma * (bounded * (q * sigma) + 1.0f)};
}

// y = silu(gate) · up
template <element T>
struct Swiglu {
  static constexpr const char* name = "swiglu";
  struct Params {
    StridedRows<const T> gate;
    StridedRows<const T> up;
    StridedRows<T> y;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> gate = load_floats<N>(lane, p.gate, row, column);
    const Floats<N> up = load_floats<N>(lane, p.up, row, column);
    store_floats(lane, p.y, row, column,
                 map(gate, up, [&lane](float g, float u) { return silu(lane, g).value * u; }));
  }
};

// d_gate = dy · up · silu'(gate), d_up = dy · silu(gate)
template <element T>
struct SwigluBackward {
  static constexpr const char* name = "swiglu_backward";
  struct Params {
    StridedRows<const T> gate;
    StridedRows<const T> up;
    StridedRows<const T> dy;
    StridedRows<T> d_gate;
    StridedRows<T> d_up;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> gate = load_floats<N>(lane, p.gate, row, column);
    const Floats<N> up = load_floats<N>(lane, p.up, row, column);
    const Floats<N> dy = load_floats<N>(lane, p.dy, row, column);
    Floats<N> d_gate;
    Floats<N> d_up;
    TRILITH_UNROLL
    for (int i = 0; i < N; ++i) {
      const Silu of_gate = silu(lane, gate[i]);
      d_gate[i] = dy[i] * up[i] * of_gate.slope;
      d_up[i] = dy[i] * of_gate.value;
    }
    store_floats(lane, p.d_gate, row, column, d_gate);
    store_floats(lane, p.d_up, row, column, d_up);
  }
};

}  // namespace trilith::inline v0::kernels
