// The exchanges of a pipeline: what its ranks send to each other, and when. They follow from the programs alone.
//
// Each message is sent right after the action that makes it, and received in the receiver's gap (the time between two
// of its actions) that is open at that moment, or else in the first that opens after it. What falls into one gap of a
// rank is one group. "At that moment" is told by simulate(), with unit costs.
//
// No such exchange deadlocks, even when every group waits until all its partners are posted. Let a gap last from e to s,
// where its next action starts. A group G waits for a group H of another rank, and through it for every group K before H
// on that rank; then s(K) < s(G), so there is no cycle. For H sends at T = e(H) what G receives: s(K) < e(H) = T ≤ s(G),
// for G's gap is open at T or later. For H receives what G sends at T = e(G): K lies before the gap that is open at T,
// or before the action that runs at T, so s(K) < T ≤ s(G).
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>

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

namespace detail {

// What `action` makes for another rank: where it goes, or a peer of −1.
struct Delivery {
  int peer = -1;
  int chunk = 0;  // of the peer
  Pass pass = Pass::forward;
};

constexpr Delivery delivery(const Pipeline& pipeline, int rank, const Action& action) {
  const bool forward = action.pass == Pass::forward;
  if (!forward && !computes_input_gradient(action.pass)) return {};
  const int stage = pipeline.stage(rank, action.chunk) + (forward ? 1 : -1);
  if (stage < 0 || stage >= pipeline.stages()) return {};
  const auto [peer, chunk] = pipeline.place_of(stage);
  if (peer == rank) return {};
  return {peer, chunk, forward ? Pass::forward : Pass::backward_input};
}

}  // namespace detail

// The exchanges of every rank. The programs must run to their end: see Simulation::complete.
constexpr std::vector<std::vector<Exchange>> exchanges(const Pipeline& pipeline) {
  const Simulation simulation = simulate(pipeline);

  // Messages in the order in which they are made, so that sends and receives of a pair come in the same order.
  struct Made {
    Time time;
    int rank;
    int action;
  };
  std::vector<Made> made;
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    for (int i = 0; i < static_cast<int>(pipeline.programs[rank].size()); ++i) {
      made.push_back({simulation.timeline[rank][i].end, rank, i});
    }
  }
  std::sort(made.begin(), made.end(), [](const Made& a, const Made& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.rank != b.rank ? a.rank < b.rank : a.action < b.action;
  });

  std::vector<std::vector<std::vector<Transfer>>> gaps(pipeline.ranks, std::vector<std::vector<Transfer>>{});
  for (int rank = 0; rank < pipeline.ranks; ++rank) gaps[rank].resize(pipeline.programs[rank].size() + 1);
  for (const Made& m : made) {
    const Program& program = pipeline.programs[m.rank];
    const Action& action = program[m.action];
    const detail::Delivery to = detail::delivery(pipeline, m.rank, action);
    if (to.peer < 0) continue;
    std::size_t after = static_cast<std::size_t>(m.action) + 1;
    while (program[after - 1].fused_with_next) ++after;
    gaps[m.rank][after].push_back({Transfer::Kind::send, to.peer, to.pass, action.microbatch, action.chunk});

    const std::vector<Span>& line = simulation.timeline[to.peer];
    const auto open = std::partition_point(line.begin(), line.end(),
                                           [&](const Span& span) { return span.start < m.time; });
    gaps[to.peer][static_cast<std::size_t>(open - line.begin())].push_back(
        {Transfer::Kind::receive, m.rank, to.pass, action.microbatch, to.chunk});
  }

  std::vector<std::vector<Exchange>> result(pipeline.ranks, std::vector<Exchange>{});
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    for (std::size_t before = 0; before < gaps[rank].size(); ++before) {
      if (gaps[rank][before].empty()) continue;
      result[rank].push_back({static_cast<int>(before), std::move(gaps[rank][before])});
    }
  }
  return result;
}

// Those of one rank.
constexpr std::vector<Exchange> exchanges(const Pipeline& pipeline, int rank) {
  return exchanges(pipeline)[rank];
}

}  // namespace trilith::inline v0::schedule
