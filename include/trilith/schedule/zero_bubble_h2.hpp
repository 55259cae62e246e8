// ZB-H2: ZB-H1 with up to 2p − 1 microbatches in flight, so that a rank is idle only before its first and
// after its last action. It pays where the optimizer's step need not wait for the other ranks.
//
// Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", ICLR 2024.
#pragma once

#include <algorithm>
#include <cstdint>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>

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

  // ZB-H1's, with warm-up min(2(p − 1 − r), m) and lag 2r.
  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    return ZeroBubbleH1::program_of(std::min(2 * (ranks - 1 - rank), microbatches), 2 * rank, microbatches);
  }
};

}  // namespace trilith::inline v0
