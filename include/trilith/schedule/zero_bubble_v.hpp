// ZB-V: each rank holds two stages in a V, r and 2p − 1 − r, with backwards in two parts. No bubble but that
// of filling the pipeline once, at the memory of 1F1B's first rank on every rank. Rank 0 holds the first
// stage and the last, so a tied embedding needs no exchange.
//
// Qi, Wan, Amar, Lin, "Pipeline parallelism with controllable memory", NeurIPS 2024.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <trilith/schedule/action.hpp>

namespace trilith::inline v0 {

struct ZeroBubbleV {
  static constexpr const char* name = "ZeroBubbleV";
  static constexpr int chunks = 2;

  static constexpr int stage_of(int rank, int chunk, int ranks) {
    return chunk == 0 ? rank : 2 * ranks - 1 - rank;
  }

  static constexpr int peak_in_flight(int /*rank*/, int ranks, int microbatches) {
    return std::min(by_rule(ranks, microbatches) ? 2 * ranks : 3 * ranks, 2 * microbatches);
  }

  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    return microbatches >= ranks ? 6 * std::int64_t{microbatches} + ranks - 1 : 0;
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    if (by_rule(ranks, microbatches)) return rule(rank, ranks, microbatches);
    return earliest(ranks, microbatches)[rank];
  }

  static constexpr std::vector<schedule::Program> programs(int ranks, int microbatches) {
    if (!by_rule(ranks, microbatches)) return earliest(ranks, microbatches);
    std::vector<schedule::Program> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rule(rank, ranks, microbatches));
    return all;
  }

 private:
  static constexpr bool by_rule(int ranks, int microbatches) { return microbatches >= 2 * ranks - 1; }

  // Per chunk, the next microbatch of each kind of pass.
  struct Next {
    std::array<int, 2> f = {}, i = {}, w = {};
  };

  // The passes of one rank, each kind ascending by microbatch.
  struct Passes : Next {
    schedule::Program actions = {};

    constexpr void forward(int chunk) { actions.push_back({schedule::Pass::forward, f[chunk]++, chunk}); }
    constexpr void input(int chunk) {
      actions.push_back({schedule::Pass::backward_input, i[chunk]++, chunk});
    }
    constexpr void weight(int chunk) {
      actions.push_back({schedule::Pass::backward_weight, w[chunk]++, chunk});
    }
  };

  static constexpr schedule::Program rule(int rank, int ranks, int m) {
    Passes rule;
    rule.actions.reserve(6 * static_cast<std::size_t>(m));
    // 1. Warm-up: 2(p − r) − 1 times F0; r times F1 F0; p − r times F1 I1 W1.
    for (int k = 0; k < 2 * (ranks - rank) - 1; ++k) rule.forward(0);
    for (int k = 0; k < rank; ++k) {
      rule.forward(1);
      rule.forward(0);
    }
    for (int k = 0; k < ranks - rank; ++k) {
      rule.forward(1);
      rule.input(1);
      rule.weight(1);
    }
    // 2. Steady, until forwards end: F0 while any are left, I0 W0 F1 I1 W1.
    while (rule.f[1] < m) {
      if (rule.f[0] < m) rule.forward(0);
      rule.input(0);
      rule.weight(0);
      rule.forward(1);
      rule.input(1);
      rule.weight(1);
    }
    // 3. Drain: r times I0 I1; p − r times I0 W0; the weight parts left over.
    for (int k = 0; k < rank; ++k) {
      rule.input(0);
      rule.input(1);
    }
    for (int k = 0; k < ranks - rank; ++k) {
      rule.input(0);
      rule.weight(0);
    }
    while (rule.w[1] < m) rule.weight(1);
    while (rule.w[0] < m) rule.weight(0);
    return rule.actions;
  }

  // With fewer microbatches than the rule's warm-up takes: whenever a rank is free it runs the first that is
  // ready of I1 F1 F0 I0 W1 W0, in unit time, with at most 3p in flight. Nothing ends before 6m + p − 1, and
  // for m ≥ p this does not end later.
  static constexpr std::vector<schedule::Program> earliest(int ranks, int m) {
    const int stages = 2 * ranks;
    std::vector<Passes> all(ranks, Passes{});
    const auto on = [&](int stage) { return std::min(stage, stages - 1 - stage); };
    const auto chunk = [&](int stage) { return stage < ranks ? 0 : 1; };
    for (int left = 6 * m * ranks; left > 0;) {
      const std::vector<Next> before(all.begin(), all.end());  // what has ended when this unit of time begins
      for (int r = 0; r < ranks; ++r) {
        Passes& mine = all[r];
        const auto had = [&](int stage) -> const Next& { return before[on(stage)]; };
        const auto forward_ready = [&](int c) {
          const int stage = stage_of(r, c, ranks);
          const int held = mine.f[0] + mine.f[1] - mine.w[0] - mine.w[1];
          return mine.f[c] < m && held < 3 * ranks &&
                 (stage == 0 || had(stage - 1).f[chunk(stage - 1)] > mine.f[c]);
        };
        const auto input_ready = [&](int c) {
          const int stage = stage_of(r, c, ranks);
          return mine.i[c] < mine.f[c] &&
                 (stage == stages - 1 || had(stage + 1).i[chunk(stage + 1)] > mine.i[c]);
        };
        const std::size_t done = mine.actions.size();
        if (input_ready(1)) {
          mine.input(1);
        } else if (forward_ready(1)) {
          mine.forward(1);
        } else if (forward_ready(0)) {
          mine.forward(0);
        } else if (input_ready(0)) {
          mine.input(0);
        } else if (mine.w[1] < mine.i[1]) {
          mine.weight(1);
        } else if (mine.w[0] < mine.i[0]) {
          mine.weight(0);
        }
        left -= static_cast<int>(mine.actions.size() - done);
      }
    }
    std::vector<schedule::Program> programs;
    for (const Passes& passes : all) programs.push_back(passes.actions);
    return programs;
  }
};

}  // namespace trilith::inline v0
