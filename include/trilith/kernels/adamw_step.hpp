// What the settings of AdamW come to at one step: the numbers that every parameter takes.
#pragma once

namespace trilith::inline v0::kernels {

struct AdamWStep {
  float gradient_scale;
  float rate1;  // 1 − beta1
  float beta2;
  float rate2;  // 1 − beta2
  float epsilon;
  float root_factor;  // 1 / √(1 − beta2^t)
  float step_size;    // learning_rate / (1 − beta1^t)
  float keep;         // 1 − learning_rate · weight_decay
};

}  // namespace trilith::inline v0::kernels
