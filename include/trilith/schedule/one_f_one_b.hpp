// 1F1B: each rank runs just enough forwards ahead to keep the pipeline full, then alternates. It has the
// bubble of GPipe and holds at most p microbatches instead of m.
//
// Narayanan et al., "Memory-efficient pipeline-parallel DNN training" (PipeDream-Flush), ICML 2021.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <trilith/schedule/action.hpp>

namespace trilith::inline v0 {

struct OneFOneB {
  static constexpr const char* name = "OneFOneB";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int /*chunk*/, int /*ranks*/) { return rank; }

  static constexpr int warm_up(int rank, int ranks, int microbatches) {
    return std::min(ranks - 1 - rank, microbatches);
  }

  static constexpr int peak_in_flight(int rank, int ranks, int microbatches) {
    return std::min(ranks - rank, microbatches);
  }

  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    return 3 * (std::int64_t{microbatches} + ranks - 1);
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    actions.reserve(2 * static_cast<std::size_t>(microbatches));
    int f = 0;  // next microbatch to go forward
    int b = 0;  // next microbatch to go backward

    // 1. Warm-up: min(p − 1 − r, m) forwards, until the first gradient can come back.
    while (f < warm_up(rank, ranks, microbatches)) actions.push_back({forward, f++, 0});
    // 2. Steady: m − warm-up pairs of one forward and one backward.
    while (f < microbatches) {
      actions.push_back({forward, f++, 0});
      actions.push_back({backward, b++, 0});
    }
    // 3. Drain: the warm-up's backwards.
    while (b < microbatches) actions.push_back({backward, b++, 0});
    return actions;
  }
};

}  // namespace trilith::inline v0
