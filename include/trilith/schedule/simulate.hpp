// What a program would take: each rank runs its actions in order, each as soon as its inputs are there.
// Messages take their time between ranks and occupy neither. The same constexpr function answers the
// compiler, a trainer and a picture.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <trilith/core/ratio.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith::inline v0::schedule {

using Time = std::int64_t;

// Of one stage, in any common unit.
struct Cost {
  Time forward = 1;
  Time backward_input = 1;
  Time backward_weight = 1;
  Time message = 0;  // of an output or a gradient, to another rank

  constexpr Time of(Pass pass) const {
    switch (pass) {
      case Pass::forward: return forward;
      case Pass::backward: return backward_input + backward_weight;
      case Pass::backward_input: return backward_input;
      case Pass::backward_weight: return backward_weight;
    }
    return 0;
  }
};

// What two actions that overlap as one take: the sum of both, or the larger where the device hides the other.
enum class Fused { sum, larger };

// When an action ran, and when what it needed was there (start of the rank's idle time, if any).
struct Span {
  Time start = 0;
  Time end = 0;
};

struct Simulation {
  Time makespan = 0;
  std::vector<Time> busy = {};                   // per rank
  std::vector<int> peak_in_flight = {};          // per rank, in chunks
  std::vector<std::vector<Span>> timeline = {};  // per rank, of each action of its program
  bool complete = true;                          // false: the programs wait for each other for ever

  // Actions of a rank that have run: all, unless the programs wait for each other.
  constexpr int done(int rank) const {
    const std::vector<Span>& line = timeline[rank];
    return static_cast<int>(
        std::count_if(line.begin(), line.end(), [](const Span& s) { return s.end > s.start; }));
  }

  // Idle time over all time.
  constexpr Ratio bubble() const {
    const Time all = makespan * static_cast<Time>(busy.size());
    return {all - total_busy(), all};
  }

  // Idle time over the time that is worked: what the SC21 Megatron paper calls the bubble.
  constexpr Ratio bubble_of_ideal() const {
    const Time all = makespan * static_cast<Time>(busy.size());
    return {all - total_busy(), total_busy()};
  }

  // From a rank's first action to the end of its last.
  constexpr Time span(int rank) const {
    const std::vector<Span>& line = timeline[rank];
    return line.empty() ? 0 : line.back().end - line.front().start;
  }

 private:
  constexpr Time total_busy() const { return std::accumulate(busy.begin(), busy.end(), Time{0}); }
};

namespace detail {

class Simulator {
 public:
  constexpr Simulator(const Pipeline& pipeline, std::span<const Cost> costs, Fused fused)
      : pipeline_(&pipeline),
        costs_(costs),
        fused_(fused),
        next_(pipeline.ranks, 0),
        clock_(pipeline.ranks, 0),
        forward_(cells(), unknown),
        gradient_(cells(), unknown) {
    for (int rank = 0; rank < pipeline.ranks; ++rank) {
      result_.timeline.push_back(std::vector<Span>(pipeline.programs[rank].size(), Span{}));
    }
    for (const int position : pipeline.positions()) rank_of_.push_back(position / pipeline.chunks);
    result_.busy.assign(pipeline.ranks, 0);
    result_.peak_in_flight.assign(pipeline.ranks, 0);
  }

  constexpr Simulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < pipeline_->ranks; ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    for (int rank = 0; rank < pipeline_->ranks; ++rank) {
      result_.complete = result_.complete && next_[rank] == pipeline_->programs[rank].size();
      result_.makespan = std::max(result_.makespan, clock_[rank]);
      count_in_flight(rank);
    }
    return std::move(result_);
  }

 private:
  static constexpr Time unknown = -1;

  constexpr std::size_t cells() const {
    return static_cast<std::size_t>(pipeline_->stages()) * pipeline_->microbatches;
  }
  constexpr std::size_t cell(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * pipeline_->microbatches + microbatch;
  }

  // When what `action` needs is on its rank; unknown as long as it is not made.
  constexpr Time ready(int rank, const Action& action) const {
    const int stage = pipeline_->stage(rank, action.chunk);
    const auto arrival = [&](const std::vector<Time>& made, int from) {
      const Time at = made[cell(from, action.microbatch)];
      return at == unknown || rank_of_[from] == rank ? at : at + costs_[from].message;
    };
    if (action.pass == Pass::forward) return stage == 0 ? 0 : arrival(forward_, stage - 1);
    if (action.pass == Pass::backward_weight) return gradient_[cell(stage, action.microbatch)];
    const Time own = forward_[cell(stage, action.microbatch)];
    if (own == unknown || stage + 1 == pipeline_->stages()) return own;
    const Time next = arrival(gradient_, stage + 1);
    return next == unknown ? unknown : std::max(own, next);
  }

  // Runs the rank's next action, or two that are fused, if it can.
  constexpr bool advance(int rank) {
    const Program& program = pipeline_->programs[rank];
    const std::size_t first = next_[rank];
    if (first == program.size()) return false;
    std::size_t last = first;
    while (last + 1 < program.size() && program[last].fused_with_next) ++last;

    Time start = clock_[rank];
    Time sum = 0;
    Time largest = 0;
    for (std::size_t i = first; i <= last; ++i) {
      const Time there = ready(rank, program[i]);
      if (there == unknown) return false;
      start = std::max(start, there);
      const Time cost = costs_[pipeline_->stage(rank, program[i].chunk)].of(program[i].pass);
      sum += cost;
      largest = std::max(largest, cost);
    }
    const Time end = start + (fused_ == Fused::sum ? sum : largest);
    for (std::size_t i = first; i <= last; ++i) {
      const Action& action = program[i];
      const std::size_t where = cell(pipeline_->stage(rank, action.chunk), action.microbatch);
      if (action.pass == Pass::forward) forward_[where] = end;
      if (computes_input_gradient(action.pass)) gradient_[where] = end;
      result_.timeline[rank][i] = {start, end};
    }
    result_.busy[rank] += end - start;
    clock_[rank] = end;
    next_[rank] = last + 1;
    return true;
  }

  constexpr void count_in_flight(int rank) {
    int held = 0;
    for (const Action& action : pipeline_->programs[rank]) {
      if (action.pass == Pass::forward) ++held;
      result_.peak_in_flight[rank] = std::max(result_.peak_in_flight[rank], held);
      if (releases_activations(action.pass)) --held;
    }
  }

  const Pipeline* pipeline_;
  std::span<const Cost> costs_;  // per stage
  Fused fused_;
  std::vector<std::size_t> next_;  // per rank: its next action
  std::vector<Time> clock_;        // per rank: when it is free
  std::vector<int> rank_of_;       // per stage
  std::vector<Time> forward_;      // [stage][microbatch]: when its output was made
  std::vector<Time> gradient_;     // [stage][microbatch]: when its input's gradient was made
  Simulation result_;
};

}  // namespace detail

// per_stage: one cost for each stage of the pipeline.
constexpr Simulation simulate(const Pipeline& pipeline, std::span<const Cost> per_stage,
                              Fused fused = Fused::sum) {
  return detail::Simulator(pipeline, per_stage, fused).run();
}

// The same cost for every stage. Not passed by value: for AVX-512, g++ 12 hands over {1, 1, 1, 0}, a default
// Cost, as {1, 1, 1, 1}.
constexpr Simulation simulate(const Pipeline& pipeline, const Cost& cost = {}, Fused fused = Fused::sum) {
  const std::vector<Cost> costs(pipeline.stages(), cost);
  return simulate(pipeline, costs, fused);
}

template <schedule_policy Policy>
constexpr Simulation simulate(int ranks, int microbatches, const Cost& cost = {}) {
  return simulate(make_pipeline<Policy>(ranks, microbatches), cost);
}

template <schedule_policy Policy>
constexpr Simulation simulate(int ranks, int microbatches, std::span<const Cost> per_stage) {
  return simulate(make_pipeline<Policy>(ranks, microbatches), per_stage);
}

}  // namespace trilith::inline v0::schedule
