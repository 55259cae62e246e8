// One step of AdamW in one pass over memory: 28 bytes moved for each parameter.
#pragma once

#include <cmath>
#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
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
  const double t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(static_cast<double>(settings.beta1), t);
  const double correction2 = 1.0 - std::pow(static_cast<double>(settings.beta2), t);
  const float rate1 = 1.0f - settings.beta1;
  const float beta2 = settings.beta2;
  const float rate2 = 1.0f - settings.beta2;
  const float epsilon = settings.epsilon;
  const float root_factor = static_cast<float>(1.0 / std::sqrt(correction2));
  const float step_size = static_cast<float>(settings.learning_rate / correction1);
  const float keep = static_cast<float>(1.0 - static_cast<double>(settings.learning_rate) *
                                                  static_cast<double>(settings.weight_decay));

  parallel::elements(stream, parameters.size(), [&](Index first, Index last) {
    float* const p = &parameters(first);
    const float* const gradient = &gradients(first);
    float* const first_moments = &first_moment(first);
    float* const second_moments = &second_moment(first);
    simd::for_each_vector(last - first, [&](Index i, auto w) {
      using simd::Floats;
      const Floats g = simd::load_first(gradient + i, w) * gradient_scale;
      const Floats old = simd::load_first(first_moments + i, w);
      const Floats m = old + (g - old) * rate1;
      const Floats v = simd::load_first(second_moments + i, w) * beta2 + g * g * rate2;
      const Floats update = m * step_size / (simd::sqrt(v) * root_factor + epsilon);
      simd::store_first(first_moments + i, m, w);
      simd::store_first(second_moments + i, v, w);
      simd::store_first(p + i, simd::load_first(p + i, w) * keep - update, w);
    });
  });
}

}  // namespace trilith::inline v0::ops
