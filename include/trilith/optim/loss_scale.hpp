// The scale of a loss whose gradients are computed in float16, where those below 2^-24 are lost and those
// above 65504 are infinite: Micikevicius et al., "Mixed precision training", 2018. It is lowered where
// gradients have overflowed and raised where none have for long. Rules and numbers are Megatron-LM's.
#pragma once

#include <algorithm>

namespace trilith::inline v0 {

struct LossScaling {
  double initial = 4294967296.0;  // 2^32; all scales are powers of two, so that they round nothing
  double least = 1;
  int window = 1000;   // steps without overflow, one after the other, that double the scale
  int hysteresis = 2;  // overflows before the scale is halved; counted anew once it has been doubled
};

class DynamicLossScale {
 public:
  explicit DynamicLossScale(const LossScaling& scaling)
      : scaling_(scaling), value_(scaling.initial), left_(scaling.hysteresis) {}

  double value() const { return value_; }

  // After a step whose gradients were finite, or were not.
  void update(bool finite) {
    if (!finite) {
      good_steps_ = 0;
      if (--left_ <= 0) value_ = std::max(value_ / 2, scaling_.least);
    } else if (++good_steps_ == scaling_.window) {
      good_steps_ = 0;
      left_ = scaling_.hysteresis;
      value_ *= 2;
    }
  }

 private:
  LossScaling scaling_;
  double value_;
  int good_steps_ = 0;
  int left_;  // overflows that the scale bears
};

// Of formats that need none.
class UnitLossScale {
 public:
  explicit UnitLossScale(const LossScaling& /*scaling*/) {}
  static constexpr double value() { return 1; }
};

}  // namespace trilith::inline v0
