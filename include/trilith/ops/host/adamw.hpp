// One step of AdamW in one pass over memory: 28 bytes moved for each parameter.
#pragma once

#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/kernels/adamw_step.hpp>
#include <trilith/ops/adamw.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

// With g = gradient · gradient_scale, at step t ≥ 1, as PyTorch's AdamW:
//     m += (1 − beta1) · (g − m),    v = beta2 · v + (1 − beta2) · g²
//     p = (1 − learning_rate · weight_decay) · p
//         − learning_rate · m / (1 − beta1^t) / (√(v / (1 − beta2^t)) + epsilon)
// `gradient_scale` is where clipping goes in. Which parameters decay is the caller's choice: call it
// with weight_decay 0 for the others.
inline void adamw(const Host::Stream& stream, const AdamW& settings, std::int64_t step, float gradient_scale,
                  Vector<float> parameters, Vector<const float> gradients, Vector<float> first_moment,
                  Vector<float> second_moment) {
  const kernels::AdamWStep at = settings.at_step(step, gradient_scale);
  parallel::elements(stream, parameters.size(), [&](Index first, Index last) {
    float* const p = &parameters(first);
    const float* const gradient = &gradients(first);
    float* const first_moments = &first_moment(first);
    float* const second_moments = &second_moment(first);
    simd::for_each_vector(last - first, [&](Index i, auto w) {
      using simd::Floats;
      const Floats g = simd::load_first(gradient + i, w) * at.gradient_scale;
      const Floats old = simd::load_first(first_moments + i, w);
      const Floats m = old + (g - old) * at.rate1;
      const Floats v = simd::load_first(second_moments + i, w) * at.beta2 + g * g * at.rate2;
      const Floats update = m * at.step_size / (simd::sqrt(v) * at.root_factor + at.epsilon);
      simd::store_first(first_moments + i, m, w);
      simd::store_first(second_moments + i, v, w);
      simd::store_first(p + i, simd::load_first(p + i, w) * at.keep - update, w);
    });
  });
}

}  // namespace trilith::inline v0::ops
