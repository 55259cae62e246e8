// The settings of AdamW: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
#pragma once

namespace trilith::inline v0::ops {

struct AdamW {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;

  bool operator==(const AdamW&) const = default;
};

}  // namespace trilith::inline v0::ops
