// Schedules as users of the library write them, for tests: everything that holds for the library's own must
// hold for these.
#pragma once

#include <algorithm>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/one_f_one_b.hpp>

namespace trilith::test {

// 1F1B with one more warm-up forward, which hides the latency of a message at the cost of one more microbatch
// held.
struct EagerOneFOneB {
  static constexpr const char* name = "EagerOneFOneB";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int chunk, int ranks) {
    return OneFOneB::stage_of(rank, chunk, ranks);
  }

  static constexpr int warm_up(int rank, int ranks, int microbatches) {
    return std::min(ranks - rank, microbatches);
  }

  static constexpr int peak_in_flight(int rank, int ranks, int microbatches) {
    return std::min(ranks - rank + 1, microbatches);
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    int f = 0;
    while (f < warm_up(rank, ranks, microbatches)) actions.push_back({forward, f++, 0});
    for (int b = 0; b < microbatches; ++b) {
      if (f < microbatches) actions.push_back({forward, f++, 0});
      actions.push_back({backward, b, 0});
    }
    return actions;
  }
};

// ZB-H1 (Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", ICLR 2024): 1F1B with the backward in two
// parts. The weight part of microbatch i − r comes right after the input part of microbatch i, the rest at
// the end.
struct SplitOneFOneB {
  static constexpr const char* name = "SplitOneFOneB";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int chunk, int ranks) {
    return OneFOneB::stage_of(rank, chunk, ranks);
  }

  static constexpr int peak_in_flight(int /*rank*/, int ranks, int microbatches) {
    return std::min(ranks, microbatches);
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    int f = 0;
    int w = 0;
    while (f < OneFOneB::warm_up(rank, ranks, microbatches)) actions.push_back({forward, f++, 0});
    for (int i = 0; i < microbatches; ++i) {
      if (f < microbatches) actions.push_back({forward, f++, 0});
      actions.push_back({backward_input, i, 0});
      if (i >= rank) actions.push_back({backward_weight, w++, 0});
    }
    while (w < microbatches) actions.push_back({backward_weight, w++, 0});
    return actions;
  }
};

// Two chunks a rank, with the placement left open: for each p microbatches, chunk 0 and then chunk 1; all
// forwards, then all backwards. What a schedule with several stages on a rank asks of the library, in its
// simplest form. m is a multiple of p.
template <class Placement>
struct TwoChunks {
  static constexpr const char* name = "TwoChunks";
  static constexpr int chunks = 2;

  static constexpr int stage_of(int rank, int chunk, int ranks) {
    return Placement::stage_of(rank, chunk, ranks);
  }

  static constexpr int peak_in_flight(int /*rank*/, int /*ranks*/, int microbatches) {
    return 2 * microbatches;
  }

  static constexpr schedule::Program program(int /*rank*/, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    for (int first = 0; first < microbatches; first += ranks) {
      for (const int chunk : {0, 1}) {
        for (int f = first; f < first + ranks; ++f) actions.push_back({forward, f, chunk});
      }
    }
    for (int first = 0; first < microbatches; first += ranks) {
      for (const int chunk : {1, 0}) {
        for (int b = first; b < first + ranks; ++b) actions.push_back({backward, b, chunk});
      }
    }
    return actions;
  }
};

// Stages r and p + r: neighbours are always on different ranks.
struct InterleavedPlacement {
  static constexpr int stage_of(int rank, int chunk, int ranks) { return chunk * ranks + rank; }
};

// Stages r and 2p − 1 − r: rank 0 holds the first stage and the last.
struct VPlacement {
  static constexpr int stage_of(int rank, int chunk, int ranks) {
    return chunk == 0 ? rank : 2 * ranks - 1 - rank;
  }
};

}  // namespace trilith::test
