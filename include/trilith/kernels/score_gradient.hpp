// From a score to its weight in the softmax, and from the weight's gradient to the score's.
#pragma once

#include <cstdint>
#include <limits>
#include <numbers>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// What gradients of scores need of a query; without anything said, of one beyond the last.
struct QueryFacts {
  float lse_log2 = std::numeric_limits<float>::infinity();  // lse · log2 e: every weight of such a query is 0
  float delta = 0;
  Interval keys;  // that it sees

  // Pairs: VisiblePairs of some mask.
  template <simt::lane Lane, class Pairs>
  static TRILITH_DEVICE QueryFacts load(Lane& lane, const simt::Global<const float>& lse,
                                        const simt::Global<const float>& delta, const Pairs& visible,
                                        int query) {
    return {lane.load(lse, query) * std::numbers::log2e_v<float>, lane.load(delta, query),
            visible.seen_by(lane, query)};
  }
};

// Those of N queries in shared memory.
template <int N>
struct FactsTable {
  simt::Shared<float> lse_log2, delta;
  simt::Shared<std::int32_t> first, last;

  template <simt::lane Lane>
  static TRILITH_DEVICE FactsTable take(Lane& lane) {
    return {lane.shared(simt::Array<float, N>{}), lane.shared(simt::Array<float, N>{}),
            lane.shared(simt::Array<std::int32_t, N>{}), lane.shared(simt::Array<std::int32_t, N>{})};
  }
  template <simt::lane Lane>
  TRILITH_DEVICE void put(Lane& lane, int at, const QueryFacts& query) const {
    lane.store(lse_log2, at, query.lse_log2);
    lane.store(delta, at, query.delta);
    lane.store(first, at, query.keys.first);
    lane.store(last, at, query.keys.last);
  }
  template <simt::lane Lane>
  TRILITH_DEVICE Interval seen(Lane& lane, int at) const {
    return {lane.load(first, at), lane.load(last, at)};
  }
};

// x, a product q · k, becomes its weight; y, the weight's gradient, that of the product over its scale. Both
// become 0 where the query does not see the key, whatever they were.
template <bool capped, simt::lane Lane>
TRILITH_DEVICE void differentiate_score(Lane& lane, const ScoreScale& scale, float lse_log2, float delta,
                                        bool visible, float& x, float& y) {
  float score = x;
  float slope = 1;
  if constexpr (capped) {
    const float t = tanh(lane, x * scale.per_cap);
    score = scale.cap * t;
    slope = 1 - t * t;
  }
  x = visible ? lane.exp2(score * scale.log2_unit - lse_log2) : 0.0f;
  y = visible ? x * (y - delta) * slope : 0.0f;
}

}  // namespace trilith::inline v0::kernels
