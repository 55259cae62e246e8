// The settings of AdamW: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
#pragma once

#include <cmath>
#include <cstdint>

#include <trilith/kernels/adamw_step.hpp>

namespace trilith::inline v0::ops {

struct AdamW {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;

  bool operator==(const AdamW&) const = default;

  // At step t ≥ 1, with gradients multiplied by `gradient_scale`.
  kernels::AdamWStep at_step(std::int64_t step, float gradient_scale) const {
    const auto t = static_cast<double>(step);
    const double correction1 = 1.0 - std::pow(static_cast<double>(beta1), t);
    const double correction2 = 1.0 - std::pow(static_cast<double>(beta2), t);
    const double decay = static_cast<double>(learning_rate) * static_cast<double>(weight_decay);
    return {.gradient_scale = gradient_scale,
            .rate1 = 1.0f - beta1,
            .beta2 = beta2,
            .rate2 = 1.0f - beta2,
            .epsilon = epsilon,
            .root_factor = static_cast<float>(1.0 / std::sqrt(correction2)),
            .step_size = static_cast<float>(learning_rate / correction1),
            .keep = static_cast<float>(1.0 - decay)};
  }
};

}  // namespace trilith::inline v0::ops
