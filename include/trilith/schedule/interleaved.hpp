// Interleaved 1F1B: each rank holds V chunks, stages r, p + r, 2p + r, …, and so waits for 1/V of a stage's
// time at each end. It costs V times the messages and more microbatches in flight.
//
// Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM",
// SC 2021.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <trilith/schedule/action.hpp>

namespace trilith::inline v0 {

// Microbatches go in groups of N (0: of p) through all chunks of a rank, chunk by chunk; the backwards in the
// same order with chunks reversed.
template <int V, int N = 0>
struct Interleaved {
  static_assert(V >= 1, "Interleaved<V>: a rank holds at least one chunk");
  static_assert(N >= 0, "Interleaved<V, N>: a group has at least one microbatch; leave N out for p");

  static constexpr const char* name = "Interleaved";
  static constexpr int chunks = V;

  static constexpr int stage_of(int rank, int chunk, int ranks) { return chunk * ranks + rank; }

  static constexpr int group(int ranks) { return N == 0 ? ranks : N; }

// (condition over p ranks, m microbatches and n = N or p; sentence)
#define TRILITH_INTERLEAVED_CONDITIONS(CONDITION)                                                       \
  CONDITION(p > 1, "Interleaved: one pipeline rank has nothing to interleave; use OneFOneB")            \
  CONDITION(n >= p,                                                                                     \
            "Interleaved: a group must have at least p microbatches, or its first comes back too late") \
  CONDITION(m >= n, "Interleaved: there must be at least one whole group of N (or p) microbatches")     \
  CONDITION(m % n == 0 || m % n >= p,                                                                   \
            "Interleaved: m must be a multiple of N (or p), or leave a last group of at least p "       \
            "microbatches")

  static constexpr const char* refusal(int p, int m) {
    const int n = group(p);
#define TRILITH_REFUSE(condition, sentence) \
  if (!(condition)) return sentence;
    TRILITH_INTERLEAVED_CONDITIONS(TRILITH_REFUSE)
#undef TRILITH_REFUSE
    return nullptr;
  }

  // Does not compile where it refuses.
  template <int p, int m>
  struct Accepts {
    static constexpr int n = group(p);
#define TRILITH_ASSERT(condition, sentence) static_assert(condition, sentence);
    TRILITH_INTERLEAVED_CONDITIONS(TRILITH_ASSERT)
#undef TRILITH_ASSERT
  };

#undef TRILITH_INTERLEAVED_CONDITIONS

  static constexpr int warm_up(int rank, int ranks, int microbatches) {
    return std::min(2 * (ranks - 1 - rank) + (V - 1) * group(ranks), microbatches * V);
  }

  static constexpr int peak_in_flight(int rank, int ranks, int microbatches) {
    return std::min(warm_up(rank, ranks, microbatches) + 1, microbatches * V);
  }

  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    return 3 * (std::int64_t{microbatches} * V + ranks - 1);
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    actions.reserve(2 * static_cast<std::size_t>(microbatches) * V);
    Order forwards(group(ranks), microbatches);
    Order backwards(group(ranks), microbatches);
    const auto go_forward = [&] {
      const auto [microbatch, chunk] = forwards.next();
      actions.push_back({forward, microbatch, chunk});
    };
    const auto go_backward = [&] {
      const auto [microbatch, chunk] = backwards.next();
      actions.push_back({backward, microbatch, V - 1 - chunk});
    };

    const int all = microbatches * V;
    const int ahead = warm_up(rank, ranks, microbatches);
    // 1. Warm-up: min(2(p − 1 − r) + (V − 1)·N, mV) forwards.
    for (int i = 0; i < ahead; ++i) go_forward();
    // 2. Steady: mV − warm-up pairs of one forward and one backward.
    for (int i = ahead; i < all; ++i) {
      go_forward();
      go_backward();
    }
    // 3. Drain: the warm-up's backwards.
    for (int i = 0; i < ahead; ++i) go_backward();
    return actions;
  }

 private:
  struct Pass {
    int microbatch;
    int chunk;
  };

  // For each group, for each chunk, for each microbatch of the group.
  class Order {
   public:
    constexpr Order(int group, int microbatches) : group_(group), microbatches_(microbatches) {}

    constexpr Pass next() {
      const Pass pass{first_ + within_, chunk_};
      if (++within_ == std::min(group_, microbatches_ - first_)) {
        within_ = 0;
        if (++chunk_ == V) {
          chunk_ = 0;
          first_ += group_;
        }
      }
      return pass;
    }

   private:
    int group_;
    int microbatches_;
    int first_ = 0;   // microbatch of the group
    int within_ = 0;  // the group
    int chunk_ = 0;
  };
};

}  // namespace trilith::inline v0
