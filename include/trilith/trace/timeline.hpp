// A timeline: what each rank of a pipeline does and when, what it waits for, what it holds, and the messages
// between ranks. Every renderer of trace/ draws this and nothing else.
//
// Times are those of the simulation it is made from, in any unit. One that was measured serves as well.
#pragma once

#include <algorithm>
#include <cstddef>
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

// From `time` on, a rank holds `count` microbatches, counted per chunk.
struct Level {
  Time time = 0;
  int count = 0;
  friend bool operator==(const Level&, const Level&) = default;
};

// One rank.
struct Lane {
  std::vector<Block> blocks = {};     // ascending, none overlaps another
  std::vector<Level> in_flight = {};  // ascending
  int peak = 0;
  Time busy = 0;
};

struct Timeline {
  std::string name = {};  // of the schedule
  int microbatches = 1;
  int chunks = 1;
  std::vector<int> stage_of = {};  // [rank · chunks + chunk]
  Time makespan = 0;
  Ratio bubble = {0, 1};           // idle over all time
  Ratio bubble_of_ideal = {0, 1};  // idle over busy time
  std::vector<Lane> lanes = {};    // per rank
  std::vector<Message> messages = {};

  int ranks() const { return static_cast<int>(lanes.size()); }
  int stage(int rank, int chunk) const { return stage_of[static_cast<std::size_t>(rank) * chunks + chunk]; }
};

namespace detail {

// A microbatch is held from the start of its forward pass to the end of its last backward part.
inline std::vector<Level> in_flight(const std::vector<Block>& blocks) {
  std::vector<Level> levels{{0, 0}};
  const auto change = [&](Time time, std::ptrdiff_t by) {
    if (by == 0) return;
    if (levels.back().time != time) levels.push_back({time, levels.back().count});
    levels.back().count += static_cast<int>(by);
  };
  for (const Block& block : blocks) {
    change(block.start,
           std::count_if(block.actions.begin(), block.actions.end(),
                         [](const schedule::Action& a) { return a.pass == schedule::Pass::forward; }));
    change(block.end,
           -std::count_if(block.actions.begin(), block.actions.end(),
                          [](const schedule::Action& a) { return schedule::releases_activations(a.pass); }));
  }
  const auto same = [](const Level& a, const Level& b) { return a.count == b.count; };
  levels.erase(std::unique(levels.begin(), levels.end(), same), levels.end());
  return levels;
}

// Of each stage and microbatch, the block that makes its output, and the block that makes its input's
// gradient.
class BlockIndex {
 public:
  explicit BlockIndex(const schedule::Pipeline& pipeline)
      : pipeline_(&pipeline),
        blocks_(2 * static_cast<std::size_t>(pipeline.stages()) * pipeline.microbatches, -1) {}

  // forward: of forward passes; otherwise of backward passes or their input parts.
  int& of(bool forward, int stage, int microbatch) {
    const std::size_t row = 2 * static_cast<std::size_t>(stage) + (forward ? 0 : 1);
    return blocks_[row * pipeline_->microbatches + microbatch];
  }

 private:
  const schedule::Pipeline* pipeline_;
  std::vector<int> blocks_;
};

}  // namespace detail

// `simulation` is of `pipeline`, which must run to its end. `per_stage`: what it was made with, for the time
// that messages take; without it they take none.
inline Timeline make_timeline(std::string name, const schedule::Pipeline& pipeline,
                              const schedule::Simulation& simulation,
                              std::span<const schedule::Cost> per_stage = {}) {
  require(simulation.complete, "a schedule whose ranks wait for each other for ever has no timeline",
          "see schedule::verify for the action at which it stops");
  Timeline result{.name = std::move(name),
                  .microbatches = pipeline.microbatches,
                  .chunks = pipeline.chunks,
                  .stage_of = pipeline.stage_of,
                  .makespan = simulation.makespan,
                  .bubble = simulation.bubble(),
                  .bubble_of_ideal = simulation.bubble_of_ideal()};

  detail::BlockIndex index(pipeline);
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    Lane lane;
    const schedule::Program& program = pipeline.programs[rank];
    for (std::size_t i = 0; i < program.size(); ++i) {
      const bool fused = i > 0 && program[i - 1].fused_with_next;
      if (!fused) {
        const auto [start, end] = simulation.timeline[rank][i];
        const Time free = lane.blocks.empty() ? 0 : lane.blocks.back().end;
        lane.blocks.push_back({.start = start, .end = end, .waited = start - free});
      }
      lane.blocks.back().actions.push_back(program[i]);
      const bool forward = program[i].pass == schedule::Pass::forward;
      if (forward || schedule::computes_input_gradient(program[i].pass)) {
        index.of(forward, pipeline.stage(rank, program[i].chunk), program[i].microbatch) =
            static_cast<int>(lane.blocks.size()) - 1;
      }
    }
    lane.in_flight = detail::in_flight(lane.blocks);
    for (const Level& level : lane.in_flight) lane.peak = std::max(lane.peak, level.count);
    lane.busy = simulation.busy[rank];
    result.lanes.push_back(std::move(lane));
  }

  const std::vector<std::vector<schedule::Exchange>> exchanges = schedule::exchanges(pipeline);
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    for (const schedule::Exchange& exchange : exchanges[rank]) {
      for (const schedule::Transfer& transfer : exchange.transfers) {
        if (transfer.kind != schedule::Transfer::Kind::send) continue;
        const bool forward = transfer.pass == schedule::Pass::forward;
        const int stage = pipeline.stage(rank, transfer.chunk);
        const int from_block = index.of(forward, stage, transfer.microbatch);
        const int to_block = index.of(forward, stage + (forward ? 1 : -1), transfer.microbatch);
        const Time sent = result.lanes[rank].blocks[from_block].end;
        const Time takes = per_stage.empty() ? 0 : per_stage[stage].message;
        Block& reader = result.lanes[transfer.peer].blocks[to_block];
        if (reader.last_input < 0 || result.messages[reader.last_input].arrived < sent + takes) {
          reader.last_input = static_cast<int>(result.messages.size());
        }
        result.messages.push_back({rank, from_block, transfer.peer, to_block, transfer.pass,
                                   transfer.microbatch, transfer.chunk, sent, sent + takes});
      }
    }
  }
  return result;
}

}  // namespace trilith::inline v0::trace
