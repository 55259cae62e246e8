// ZB-H1: 1F1B with the backward in two parts. The input part alone is what the rank before waits for; the
// weight part fills the time in which 1F1B waits. A third of 1F1B's bubble at the memory of its first rank.
//
// Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", ICLR 2024.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/one_f_one_b.hpp>

namespace trilith::inline v0 {

struct ZeroBubbleH1 {
  static constexpr const char* name = "ZeroBubbleH1";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int /*chunk*/, int /*ranks*/) { return rank; }

  static constexpr int peak_in_flight(int /*rank*/, int ranks, int microbatches) {
    return std::min(ranks, microbatches);
  }

  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    const std::int64_t m = microbatches;
    return m >= ranks ? 3 * m + ranks - 1 : 2 * (m + ranks) - 1;
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    return program_of(OneFOneB::warm_up(rank, ranks, microbatches), rank, microbatches);
  }

  // Of a rank with warm-up a = min(p − 1 − r, m) and lag l = r; ZB-H2 has other numbers.
  static constexpr schedule::Program program_of(int warm_up, int lag, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    actions.reserve(3 * static_cast<std::size_t>(microbatches));
    int f = 0;
    int w = 0;

    // 1. Warm-up: a forwards.
    while (f < warm_up) actions.push_back({forward, f++, 0});
    // 2. Steady and drain: a forward while any are left, the input part of i, and the weight part of i − l.
    for (int i = 0; i < microbatches; ++i) {
      if (f < microbatches) actions.push_back({forward, f++, 0});
      actions.push_back({backward_input, i, 0});
      if (i >= lag) actions.push_back({backward_weight, w++, 0});
    }
    // 3. The last l weight parts.
    while (w < microbatches) actions.push_back({backward_weight, w++, 0});
    return actions;
  }
};

}  // namespace trilith::inline v0
