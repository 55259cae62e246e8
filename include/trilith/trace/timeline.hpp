// A timeline: what each rank of a pipeline does and when, what it waits for, what it holds, and the messages
// between ranks. Every renderer of trace/ draws this and nothing else.
//
// Times are those of the simulation it is made from, in any unit, or were measured (see recorded.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/ratio.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>

namespace trilith::inline v0::trace {

using schedule::Time;

// What a rank does in one stretch: an action, or several that run fused.
struct Block {
  std::vector<schedule::Action> actions = {};
  Time start = 0;
  Time end = 0;
  Time waited = 0;      // how long the rank was idle before it
  int last_input = -1;  // of the messages that it needs, the one that arrived last; −1 where it needs none
};

struct Message {
  int from, from_block;  // rank, and block of its lane
  int to, to_block;
  schedule::Pass pass;  // forward: activations travel; backward_input: their gradient
  int microbatch;
  int from_chunk;
  Time sent, arrived;
};

// From `time` on, a rank holds this many microbatches, counted per chunk, or bytes.
struct Level {
  Time time = 0;
  std::int64_t amount = 0;
  friend bool operator==(const Level&, const Level&) = default;
};

// Something that a rank did besides its program, where that was measured.
struct Aside {
  std::string what = {};
  std::string of = {};        // more words; empty where there is no more to say
  bool communicates = false;  // rather than computes
  Time start = 0;
  Time end = 0;
};

// One rank.
struct Lane {
  std::string name = {};
  std::vector<Block> blocks = {};            // ascending, none overlaps another
  std::vector<Aside> asides = {};            // ascending, none overlaps another or a block
  std::vector<Level> in_flight = {};         // ascending
  std::vector<Level> activation_bytes = {};  // of what is in flight; empty where that is not known
  int peak = 0;
  Time busy = 0;
};

struct Timeline {
  std::string name = {};  // of the schedule
  int microbatches = 1;
  int chunks = 1;
  std::vector<int> stage_of = {};  // [rank · chunks + chunk]
  Time origin = 0;                 // what 0 is on a clock that several timelines share
  Time makespan = 0;
  Ratio bubble = {0, 1};           // idle over all time
  Ratio bubble_of_ideal = {0, 1};  // idle over busy time
  std::vector<Lane> lanes = {};    // per rank
  std::vector<Message> messages = {};

  int ranks() const { return static_cast<int>(lanes.size()); }
  int stage(int rank, int chunk) const { return stage_of[static_cast<std::size_t>(rank) * chunks + chunk]; }
};

namespace detail {

// A microbatch is held from the start of its forward pass to the end of its last backward part. `amount`:
// what one weighs, by its chunk.
template <class Amount>
std::vector<Level> held(const std::vector<Block>& blocks, Amount&& amount) {
  std::vector<Level> levels{{0, 0}};
  const auto change = [&](Time time, std::int64_t by) {
    if (by == 0) return;
    if (levels.back().time != time) levels.push_back({time, levels.back().amount});
    levels.back().amount += by;
  };
  for (const Block& block : blocks) {
    for (const schedule::Action& action : block.actions) {
      if (action.pass == schedule::Pass::forward) change(block.start, amount(action.chunk));
    }
    for (const schedule::Action& action : block.actions) {
      if (schedule::releases_activations(action.pass)) change(block.end, -amount(action.chunk));
    }
  }
  const auto same = [](const Level& a, const Level& b) { return a.amount == b.amount; };
  levels.erase(std::unique(levels.begin(), levels.end(), same), levels.end());
  return levels;
}

// Something of each stage and microbatch, for its forward and for its backward pass.
template <class T>
class PerPass {
 public:
  PerPass(const schedule::Pipeline& pipeline, T initial)
      : microbatches_(static_cast<std::size_t>(pipeline.microbatches)),
        values_(2 * static_cast<std::size_t>(pipeline.stages()) * microbatches_, initial) {}

  T& of(bool forward, int stage, int microbatch) {
    return values_[(2 * static_cast<std::size_t>(stage) + (forward ? 0 : 1)) * microbatches_ + microbatch];
  }

 private:
  std::size_t microbatches_;
  std::vector<T> values_;
};

// The blocks of a rank, from the times of its actions. Actions that are fused are one block.
inline std::vector<Block> blocks_of(const schedule::Program& program,
                                    const std::vector<schedule::Span>& spans) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (i == 0 || !program[i - 1].fused_with_next) {
      const Time free = blocks.empty() ? 0 : blocks.back().end;
      blocks.push_back({.start = spans[i].start, .end = spans[i].end, .waited = spans[i].start - free});
    }
    blocks.back().actions.push_back(program[i]);
  }
  return blocks;
}

// `run`: when the actions of `pipeline` ran. `times(rank, exchange, transfer, made)` says when the message
// that `transfer`, in an exchange of the rank, sends was sent and arrived; what it carries was made at
// `made`.
template <class Times>
Timeline timeline_of(std::string name, const schedule::Pipeline& pipeline, const schedule::Simulation& run,
                     const std::vector<std::vector<schedule::Exchange>>& exchanges,
                     std::span<const std::int64_t> activation_bytes, Times&& times) {
  Timeline result{.name = std::move(name),
                  .microbatches = pipeline.microbatches,
                  .chunks = pipeline.chunks,
                  .stage_of = pipeline.stage_of,
                  .makespan = run.makespan,
                  .bubble = run.bubble(),
                  .bubble_of_ideal = run.bubble_of_ideal()};

  PerPass<int> index(pipeline, -1);  // the block that makes a stage's output, or its input's gradient
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    Lane lane{.name = "rank " + std::to_string(rank),
              .blocks = blocks_of(pipeline.programs[rank], run.timeline[rank]),
              .busy = run.busy[rank]};
    for (std::size_t i = 0; i < lane.blocks.size(); ++i) {
      for (const schedule::Action& action : lane.blocks[i].actions) {
        const bool forward = action.pass == schedule::Pass::forward;
        if (!forward && !schedule::computes_input_gradient(action.pass)) continue;
        index.of(forward, pipeline.stage(rank, action.chunk), action.microbatch) = static_cast<int>(i);
      }
    }
    lane.in_flight = held(lane.blocks, [](int) { return std::int64_t{1}; });
    if (!activation_bytes.empty()) {
      lane.activation_bytes =
          held(lane.blocks, [&](int chunk) { return activation_bytes[pipeline.stage(rank, chunk)]; });
    }
    for (const Level& level : lane.in_flight) lane.peak = std::max(lane.peak, static_cast<int>(level.amount));
    result.lanes.push_back(std::move(lane));
  }

  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    for (std::size_t e = 0; e < exchanges[rank].size(); ++e) {
      for (const schedule::Transfer& transfer : exchanges[rank][e].transfers) {
        if (transfer.kind != schedule::Transfer::Kind::send) continue;
        const bool forward = transfer.pass == schedule::Pass::forward;
        const int stage = pipeline.stage(rank, transfer.chunk);
        const int from_block = index.of(forward, stage, transfer.microbatch);
        const int to_block = index.of(forward, stage + (forward ? 1 : -1), transfer.microbatch);
        const auto [sent, arrived] =
            times(rank, static_cast<int>(e), transfer, result.lanes[rank].blocks[from_block].end);
        Block& reader = result.lanes[transfer.peer].blocks[to_block];
        if (reader.last_input < 0 || result.messages[reader.last_input].arrived < arrived) {
          reader.last_input = static_cast<int>(result.messages.size());
        }
        result.messages.push_back({rank, from_block, transfer.peer, to_block, transfer.pass,
                                   transfer.microbatch, transfer.chunk, sent, arrived});
      }
    }
  }
  return result;
}

}  // namespace detail

// `simulation` is of `pipeline`, which must run to its end. `per_stage`: what it was made with, for the time
// that messages take; without it they take none. `activation_bytes`: of a microbatch in flight in each stage,
// if known.
inline Timeline make_timeline(std::string name, const schedule::Pipeline& pipeline,
                              const schedule::Simulation& simulation,
                              std::span<const schedule::Cost> per_stage = {},
                              std::span<const std::int64_t> activation_bytes = {}) {
  require(simulation.complete, "a schedule whose ranks wait for each other for ever has no timeline",
          "see schedule::verify for the action at which it stops");
  const auto times = [&](int rank, int /*exchange*/, const schedule::Transfer& transfer, Time made) {
    const Time takes = per_stage.empty() ? 0 : per_stage[pipeline.stage(rank, transfer.chunk)].message;
    return std::pair(made, made + takes);
  };
  return detail::timeline_of(std::move(name), pipeline, simulation, schedule::exchanges(pipeline),
                             activation_bytes, times);
}

}  // namespace trilith::inline v0::trace
