// The programs of all ranks of a pipeline, and where their stages lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith::inline v0::schedule {

struct Pipeline {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;
  std::vector<int> stage_of = {};       // [rank · chunks + chunk]
  std::vector<Program> programs = {};   // per rank
  std::vector<int> promised_peak = {};  // per rank, in chunks

  constexpr int stages() const { return ranks * chunks; }
  constexpr int stage(int rank, int chunk) const { return stage_of[rank * chunks + chunk]; }

  // The chunk of the same rank that holds the stage before, or −1: what passes between them is no message.
  constexpr int chunk_before(int rank, int chunk) const {
    for (int other = 0; other < chunks; ++other) {
      if (stage(rank, other) == stage(rank, chunk) - 1) return other;
    }
    return -1;
  }

  // Per stage, where it lies in stage_of.
  constexpr std::vector<int> positions() const {
    std::vector<int> found(stage_of.size(), 0);
    for (std::size_t i = 0; i < stage_of.size(); ++i) found[stage_of[i]] = static_cast<int>(i);
    return found;
  }

  // (rank, chunk) of a stage.
  constexpr std::pair<int, int> place_of(int stage) const {
    const auto found = std::find(stage_of.begin(), stage_of.end(), stage);
    const int position = static_cast<int>(found - stage_of.begin());
    return {position / chunks, position % chunks};
  }
};

template <schedule_policy Policy>
constexpr Pipeline make_pipeline(int ranks, int microbatches) {
  Pipeline pipeline{.ranks = ranks, .chunks = Policy::chunks, .microbatches = microbatches};
  if constexpr (requires { Policy::programs(ranks, microbatches); }) {
    pipeline.programs = Policy::programs(ranks, microbatches);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < Policy::chunks; ++chunk) {
      pipeline.stage_of.push_back(Policy::stage_of(rank, chunk, ranks));
    }
    if constexpr (!requires { Policy::programs(ranks, microbatches); }) {
      pipeline.programs.push_back(Policy::program(rank, ranks, microbatches));
    }
    pipeline.promised_peak.push_back(Policy::peak_in_flight(rank, ranks, microbatches));
  }
  return pipeline;
}

// Only the forward passes, over the same placement, a microbatch at a time: evaluation and generation.
constexpr Pipeline forward_only(const Pipeline& training, int microbatches) {
  Pipeline pipeline = training;
  pipeline.microbatches = microbatches;
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    std::vector<std::pair<int, int>> by_stage;  // (stage, chunk)
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
      by_stage.emplace_back(pipeline.stage(rank, chunk), chunk);
    }
    std::sort(by_stage.begin(), by_stage.end());
    pipeline.programs[rank].clear();
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (const auto& [stage, chunk] : by_stage) {
        pipeline.programs[rank].push_back({Pass::forward, microbatch, chunk});
      }
    }
    pipeline.promised_peak[rank] = pipeline.chunks;
  }
  return pipeline;
}

// Whether a rank's program has backward passes whose parts stand apart.
constexpr bool splits_backward(const Program& program) {
  return std::any_of(program.begin(), program.end(),
                     [](const Action& a) { return a.pass == Pass::backward_weight; });
}

}  // namespace trilith::inline v0::schedule
