// The exchanges of a pipeline: what its ranks send to each other, and when. They follow from its programs.
//
// Each message is sent right after the action that makes it, and received in the receiver's gap (the time
// between two of its actions) that is open at that moment, or else in the first that opens after it. What
// falls into one gap of a rank is one group. "At that moment" is told by simulate(), with unit costs.
//
// No such exchange deadlocks, even when every group waits until all its partners are posted. Let a gap last
// from e to s, where its next action starts. A group G waits for a group H of another rank, and through it
// for every group K before H on that rank; then s(K) < s(G), so there is no cycle. For H sends at T = e(H)
// what G receives: s(K) < e(H) = T ≤ s(G), for G's gap is open at T or later. For H receives what G sends at
// T = e(G): K lies before the gap that is open at T, or before the action that runs at T, so s(K) < T ≤ s(G).
#pragma once

#include <cstddef>
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

// What `action` makes for another stage, or a stage of −1.
struct Delivery {
  int stage = -1;
  Pass pass = Pass::forward;
};

constexpr Delivery delivery(const Pipeline& pipeline, int rank, const Action& action) {
  const int stage = pipeline.stage(rank, action.chunk);
  if (action.pass == Pass::forward) return {stage + 1 < pipeline.stages() ? stage + 1 : -1, Pass::forward};
  return {computes_input_gradient(action.pass) ? stage - 1 : -1, Pass::backward_input};
}

// All actions of the pipeline by the time at which they end, equal ones by rank.
struct Ended {
  Time time;
  int rank;
  int action;
};

constexpr std::vector<Ended> in_order_of_end(const Simulation& simulation) {
  std::vector<std::size_t> next(static_cast<std::size_t>(simulation.makespan) + 2, 0);
  for (const std::vector<Span>& line : simulation.timeline) {
    for (const Span& span : line) ++next[span.end + 1];
  }
  for (std::size_t time = 1; time < next.size(); ++time) next[time] += next[time - 1];
  std::vector<Ended> ended(next.back(), Ended{});
  for (int rank = 0; rank < static_cast<int>(simulation.timeline.size()); ++rank) {
    int action = 0;
    for (const Span& span : simulation.timeline[rank]) ended[next[span.end]++] = {span.end, rank, action++};
  }
  return ended;
}

}  // namespace detail

// The exchanges of every rank. `simulation`: of the pipeline in unit costs; it must be complete.
constexpr std::vector<std::vector<Exchange>> exchanges(const Pipeline& pipeline,
                                                       const Simulation& simulation) {
  const std::vector<int> positions = pipeline.positions();
  std::vector<std::vector<Exchange>> result(pipeline.ranks, std::vector<Exchange>{});
  std::vector<int> gap(pipeline.ranks, 0);  // per rank: the one that is open now, or opens next

  // Messages are taken in the order in which they are made: each rank's gaps fill in order, and sends and
  // receives of a pair come in the same order.
  const auto add = [&](Time now, int rank, const Transfer& transfer) {
    const std::vector<Span>& line = simulation.timeline[rank];
    int& before = gap[rank];
    while (before < static_cast<int>(line.size()) && line[before].start < now) ++before;
    std::vector<Exchange>& groups = result[rank];
    if (groups.empty() || groups.back().before != before) {
      groups.push_back({before, {}});
      groups.back().transfers.reserve(4);
    }
    groups.back().transfers.push_back(transfer);
  };
  for (int rank = 0; rank < pipeline.ranks; ++rank) result[rank].reserve(pipeline.programs[rank].size() + 1);
  for (const auto& [time, rank, i] : detail::in_order_of_end(simulation)) {
    const Action& action = pipeline.programs[rank][i];
    const detail::Delivery to = detail::delivery(pipeline, rank, action);
    if (to.stage < 0) continue;
    const int peer = positions[to.stage] / pipeline.chunks;
    if (peer == rank) continue;
    const int chunk = positions[to.stage] % pipeline.chunks;
    add(time, rank, {Transfer::Kind::send, peer, to.pass, action.microbatch, action.chunk});
    add(time, peer, {Transfer::Kind::receive, rank, to.pass, action.microbatch, chunk});
  }
  return result;
}

constexpr std::vector<std::vector<Exchange>> exchanges(const Pipeline& pipeline) {
  return exchanges(pipeline, simulate(pipeline));
}

// Those of one rank.
constexpr std::vector<Exchange> exchanges(const Pipeline& pipeline, int rank) {
  return exchanges(pipeline)[rank];
}

}  // namespace trilith::inline v0::schedule
