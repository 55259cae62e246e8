// GPipe: all forwards, then all backwards. The simplest schedule; it holds every microbatch of the step.
//
// Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism", NeurIPS
// 2019. The backwards ascend here, where the paper's descend, so that weight gradients are summed in the
// same order as in every other schedule; the times are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include <trilith/schedule/action.hpp>

namespace trilith::inline v0 {

struct GPipe {
  static constexpr const char* name = "GPipe";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int /*chunk*/, int /*ranks*/) { return rank; }

  static constexpr int peak_in_flight(int /*rank*/, int /*ranks*/, int microbatches) { return microbatches; }

  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    return 3 * (std::int64_t{microbatches} + ranks - 1);
  }

  static constexpr schedule::Program program(int /*rank*/, int /*ranks*/, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    actions.reserve(2 * static_cast<std::size_t>(microbatches));
    // 1. Fill: m forwards.
    for (int f = 0; f < microbatches; ++f) actions.push_back({forward, f, 0});
    // 2. Drain: m backwards.
    for (int b = 0; b < microbatches; ++b) actions.push_back({backward, b, 0});
    return actions;
  }
};

}  // namespace trilith::inline v0
