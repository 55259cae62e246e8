// ZB-H2: ZB-H1 with up to 2p − 1 microbatches in flight, so that a rank is idle only before its first and
// after its last action. It pays where the optimizer's step need not wait for the other ranks.
//
// Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", ICLR 2024.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <trilith/schedule/action.hpp>

namespace trilith::inline v0 {

struct ZeroBubbleH2 {
  static constexpr const char* name = "ZeroBubbleH2";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int /*chunk*/, int /*ranks*/) { return rank; }

  static constexpr int peak_in_flight(int /*rank*/, int ranks, int microbatches) {
    return std::min(2 * ranks - 1, microbatches);
  }

  // As ZB-H1's: what goes is the idle time within each rank's span.
  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    return microbatches >= 2 * ranks - 2 ? 3 * std::int64_t{microbatches} + ranks - 1 : 0;
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    actions.reserve(3 * static_cast<std::size_t>(microbatches));
    const int ahead = std::min(2 * (ranks - 1 - rank), microbatches);
    int f = 0;
    int w = 0;

    // 1. Warm-up: min(2(p − 1 − r), m) forwards.
    while (f < ahead) actions.push_back({forward, f++, 0});
    // 2. Steady and drain: a forward while any are left, the input part of i, and the weight part of i − 2r.
    for (int i = 0; i < microbatches; ++i) {
      if (f < microbatches) actions.push_back({forward, f++, 0});
      actions.push_back({backward_input, i, 0});
      if (i >= 2 * rank) actions.push_back({backward_weight, w++, 0});
    }
    // 3. The last 2r weight parts.
    while (w < microbatches) actions.push_back({backward_weight, w++, 0});
    return actions;
  }
};

}  // namespace trilith::inline v0
