// One step of AdamW in one pass over memory, by the formulas of ops/host/adamw.hpp: an operation for EachPack
// on one row. Parameters and moments are float32; where the element is not, its copies of the parameters are
// written too.
#pragma once

#include <cmath>
#include <concepts>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/adamw_step.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <element T>
struct AdamW {
  static constexpr const char* name = "adamw";
  struct Params {
    AdamWStep step;
    simt::Global<float> parameters;
    simt::Global<const float> gradients;
    simt::Global<float> first_moment;
    simt::Global<float> second_moment;
    simt::Global<T> weights;  // not of float
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index, Index i, const Params& p) const {
    const AdamWStep& step = p.step;
    const Floats<N> g = load_floats<N>(lane, p.gradients, i) * step.gradient_scale;
    const Floats<N> old = load_floats<N>(lane, p.first_moment, i);
    const Floats<N> m = old + (g - old) * step.rate1;
    const Floats<N> v = load_floats<N>(lane, p.second_moment, i) * step.beta2 + g * g * step.rate2;
    const Floats<N> update = map(m, v, [&step](float first, float second) {
      return first * step.step_size / (std::sqrt(second) * step.root_factor + step.epsilon);
    });
    const Floats<N> updated = load_floats<N>(lane, p.parameters, i) * step.keep - update;
    store_floats(lane, p.first_moment, i, m);
    store_floats(lane, p.second_moment, i, v);
    store_floats(lane, p.parameters, i, updated);
    if constexpr (!std::same_as<T, float>) store_floats(lane, p.weights, i, updated);
  }
};

}  // namespace trilith::inline v0::kernels
