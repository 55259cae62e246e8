// The learning rate of each step: a linear warm-up, then half a cosine down to the least.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace trilith::inline v0 {

struct CosineSchedule {
  double peak = 3e-4;
  double least = 0;          // at the last step
  std::int64_t warm_up = 0;  // steps until the peak
  std::int64_t steps = 0;    // all steps; 0 keeps the peak for ever

  // The rate of step `step`, counted from 1.
  double at(std::int64_t step) const {
    if (step <= warm_up) return peak * static_cast<double>(step) / static_cast<double>(warm_up);
    if (steps <= warm_up) return peak;
    const double progress =
        std::min(1.0, static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up));
    return least + (peak - least) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
};

}  // namespace trilith::inline v0
