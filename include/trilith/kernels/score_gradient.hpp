// From a score to its weight in the softmax, and from the weight's gradient to the score's.
#pragma once

#include <limits>
#include <numbers>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// What the softmax's gradient needs of a query besides its scores.
struct QueryStatistics {
  float lse_log2;  // lse · log2 e; +∞ where the query sees no key, so that every weight is 0
  float delta;

  static TRILITH_DEVICE QueryStatistics of(float lse, float delta) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return {lse == -infinity ? infinity : lse * std::numbers::log2e_v<float>, delta};
  }
  // Of a query beyond the last.
  static TRILITH_DEVICE QueryStatistics none() { return {std::numeric_limits<float>::infinity(), 0}; }
};

// x, a product q · k, becomes its weight; y, the weight's gradient, that of the product over its scale. Both
// become 0 where the query does not see the key, whatever they were.
template <bool capped, simt::lane Lane>
TRILITH_DEVICE void differentiate_score(Lane& lane, const ScoreScale& scale, const QueryStatistics& query,
                                        bool visible, float& x, float& y) {
  float score = x;
  float slope = 1;
  if constexpr (capped) {
    const float t = tanh(lane, x * scale.per_cap);
    score = scale.cap * t;
    slope = 1 - t * t;
  }
  x = visible ? lane.exp2(score * scale.log2_unit - query.lse_log2) : 0.0f;
  y = visible ? x * (y - query.delta) * slope : 0.0f;
}

}  // namespace trilith::inline v0::kernels
