// The programs of all ranks of a pipeline, and what follows from them without knowing who made them: the
// exchanges between the ranks and the slots that hold activations.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith::inline v0::schedule {

// One message between two pipeline ranks: the output of a stage's forward pass, or the gradient of a
// stage's input. `chunk` is the chunk of the rank that sends or receives.
struct Transfer {
  enum class Kind { send, receive };
  Kind kind;
  int peer;   // pipeline rank
  Pass pass;  // forward: activations travel; backward_input: their gradient
  int microbatch;
  int chunk;
  friend constexpr bool operator==(const Transfer&, const Transfer&) = default;
};

// A group of transfers, atomic as an NCCL group is: all are posted, then all may be waited for.
// It stands before action `before` of its rank's program (or after the last one).
struct Exchange {
  int before;
  std::vector<Transfer> transfers;
};

// Where each microbatch lies, and how many places its chunk needs: activation slots from the forward pass to the
// last backward part, gradient slots from the arrival of the output's gradient to the weight part.
struct Slots {
  struct Places {
    int microbatches;
    std::vector<int> places;  // [chunk · microbatches + microbatch], or −1
    std::vector<int> count;   // per chunk

    constexpr int of(int chunk, int microbatch) const { return places[chunk * microbatches + microbatch]; }
  };
  Places activations;
  Places gradients;
};

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
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < Policy::chunks; ++chunk) {
      pipeline.stage_of.push_back(Policy::stage_of(rank, chunk, ranks));
    }
    pipeline.programs.push_back(Policy::program(rank, ranks, microbatches));
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

// The exchanges of one rank. Between two neighbouring actions stands at most one group: what the first one
// has made for other ranks, then what the second one needs from them. Grouping the two is what keeps 1F1B's
// steady state from deadlocking, where neighbours send to each other at the same time.
constexpr std::vector<Exchange> exchanges(const Pipeline& pipeline, int rank) {
  const Program& program = pipeline.programs[rank];
  const int actions = static_cast<int>(program.size());
  std::vector<Exchange> result;

  // The transfer that links `action` to the stage `step` further on (+1 or −1), if another rank holds it.
  const auto link = [&](std::vector<Transfer>& group, Transfer::Kind kind, const Action& action,
                        int step, Pass travels) {
    const int other = pipeline.stage(rank, action.chunk) + step;
    if (other < 0 || other >= pipeline.stages()) return;
    const int peer = pipeline.place_of(other).first;
    if (peer != rank) group.push_back({kind, peer, travels, action.microbatch, action.chunk});
  };

  for (int position = 0; position <= actions; ++position) {
    std::vector<Transfer> group;
    if (position > 0) {
      const Action& made = program[position - 1];
      if (made.pass == Pass::forward) link(group, Transfer::Kind::send, made, +1, Pass::forward);
      if (computes_input_gradient(made.pass)) {
        link(group, Transfer::Kind::send, made, -1, Pass::backward_input);
      }
    }
    if (position < actions) {
      const Action& next = program[position];
      if (next.pass == Pass::forward) link(group, Transfer::Kind::receive, next, -1, Pass::forward);
      if (computes_input_gradient(next.pass)) {
        link(group, Transfer::Kind::receive, next, +1, Pass::backward_input);
      }
    }
    if (!group.empty()) result.push_back({position, std::move(group)});
  }
  return result;
}

namespace detail {

// A microbatch takes the lowest free place of its chunk at the action for which `taken_by(action)` names the
// chunk (or −1), and leaves it with its last pass.
template <class TakenBy>
constexpr Slots::Places places(const Pipeline& pipeline, int rank, TakenBy taken_by) {
  const Program& program = pipeline.programs[rank];
  const int m = pipeline.microbatches;
  const std::size_t cells = static_cast<std::size_t>(pipeline.chunks) * m;
  const auto cell = [&](int chunk, int microbatch) { return static_cast<std::size_t>(chunk * m + microbatch); };
  std::vector<std::size_t> last_pass(cells, 0);
  for (std::size_t i = 0; i < program.size(); ++i) {
    last_pass[cell(program[i].chunk, program[i].microbatch)] = i;
  }

  Slots::Places result{.microbatches = m,
                       .places = std::vector<int>(cells, -1),
                       .count = std::vector<int>(pipeline.chunks, 0)};
  std::vector<std::vector<char>> taken(pipeline.chunks, std::vector<char>{});
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Action& action = program[i];
    for (const int chunk : taken_by(action)) {
      if (chunk < 0 || result.of(chunk, action.microbatch) >= 0) continue;
      std::vector<char>& row = taken[chunk];
      auto place = std::find(row.begin(), row.end(), 0);
      if (place == row.end()) place = row.insert(place, 0);
      *place = 1;
      result.places[cell(chunk, action.microbatch)] = static_cast<int>(place - row.begin());
    }
    const int place = result.of(action.chunk, action.microbatch);
    if (place >= 0 && last_pass[cell(action.chunk, action.microbatch)] == i) taken[action.chunk][place] = 0;
  }
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    result.count[chunk] = static_cast<int>(taken[chunk].size());
  }
  return result;
}

}  // namespace detail

constexpr Slots slots(const Pipeline& pipeline, int rank) {
  const auto by_forward = [](const Action& a) {
    return std::array{a.pass == Pass::forward ? a.chunk : -1};
  };
  // A stage that lies on the same rank as the next one gets its gradient when the next one has made it.
  const auto by_gradient = [&](const Action& a) {
    const bool makes = computes_input_gradient(a.pass);
    return std::array{makes ? a.chunk : -1, makes ? pipeline.chunk_before(rank, a.chunk) : -1};
  };
  return {.activations = detail::places(pipeline, rank, by_forward),
          .gradients = detail::places(pipeline, rank, by_gradient)};
}

// Whether a rank's program has backward passes whose parts stand apart.
constexpr bool splits_backward(const Program& program) {
  return std::any_of(program.begin(), program.end(),
                     [](const Action& a) { return a.pass == Pass::backward_weight; });
}

}  // namespace trilith::inline v0::schedule
