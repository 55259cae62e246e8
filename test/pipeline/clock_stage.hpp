// A stage that computes nothing: it charges its costs to the clock of its rank, and sends the time instead of
// numbers. So Executor itself says what a program takes, on real ranks with real messages, and that can be
// held against what simulate() says. Times are float, exact below 2²⁴.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/pipeline/stage.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/slots.hpp>

namespace trilith::test {

// Of one rank. It follows the rank's program to see which actions are fused: these start together, when what
// both need is there, and their results are there when both have ended.
class RankClock {
 public:
  explicit RankClock(const schedule::Program& program) : program_(&program) {}

  // The rank's next action: it can start at `ready`, takes `cost`, and leaves the time of its end in
  // `result`.
  void run(schedule::Time ready, schedule::Time cost, float* result) {
    start_ = std::max({start_, now_, ready});
    cost_ += cost;
    results_.push_back(result);
    const schedule::Action& action = (*program_)[next_++];
    if (action.pass == schedule::Pass::forward) most_held_ = std::max(most_held_, ++held_);
    if (schedule::releases_activations(action.pass)) --held_;
    if (action.fused_with_next) return;
    now_ = start_ + cost_;
    busy_ += cost_;
    for (float* one : results_) {
      if (one != nullptr) *one = static_cast<float>(now_);
    }
    results_.clear();
    start_ = 0;
    cost_ = 0;
  }

  schedule::Time now() const { return now_; }
  schedule::Time busy() const { return busy_; }
  int most_held() const { return most_held_; }

 private:
  const schedule::Program* program_;
  std::size_t next_ = 0;
  schedule::Time now_ = 0;
  schedule::Time busy_ = 0;
  int held_ = 0;
  int most_held_ = 0;
  // Of the actions that are fused with the next one.
  schedule::Time start_ = 0;
  schedule::Time cost_ = 0;
  std::vector<float*> results_;
};

class ClockStage {
 public:
  using stream = Host::Stream;

  // Of the stage on a chunk of a rank. `costs`: of every stage. `clock` and `costs` must outlive it.
  ClockStage(const schedule::Pipeline& pipeline, int rank, int chunk, const schedule::Slots& slots,
             const std::vector<schedule::Cost>& costs, RankClock& clock)
      : cost_(costs[pipeline.stage(rank, chunk)]),
        clock_(&clock),
        outputs_(slots.activations.count[chunk], 0.0f),
        inputs_(slots.inputs.count[chunk], 0.0f),
        gradients_(slots.gradients.count[chunk], 0.0f),
        output_gradients_(slots.output_gradients.count[chunk], 0.0f) {
    const int stage = pipeline.stage(rank, chunk);
    const auto message_from = [&](int neighbour) {
      if (neighbour < 0 || neighbour >= pipeline.stages()) return nothing_comes;
      return pipeline.place_of(neighbour).first == rank ? schedule::Time{0} : costs[neighbour].message;
    };
    input_message_ = message_from(stage - 1);
    gradient_message_ = message_from(stage + 1);
  }

  void forward(const stream&, int /*microbatch*/, const StagePlaces& at) {
    clock_->run(arrival(inputs_[at.input], input_message_), cost_.forward, &outputs_[at.activations]);
  }
  void backward(const stream&, int /*microbatch*/, const StagePlaces& at) {
    run_backward(at, cost_.of(schedule::Pass::backward));
  }
  void backward_input(const stream&, int /*microbatch*/, const StagePlaces& at) {
    run_backward(at, cost_.backward_input);
  }
  void backward_weight(const stream&, int /*microbatch*/, const StagePlaces& at) {
    clock_->run(static_cast<schedule::Time>(gradients_[at.gradients]), cost_.backward_weight, nullptr);
  }

  Vector<float> input(const StagePlaces& at) const { return one(inputs_[at.input]); }
  Vector<float> output(const StagePlaces& at) const { return one(outputs_[at.activations]); }
  Vector<float> output_gradient(const StagePlaces& at) const {
    return one(output_gradients_[at.output_gradient]);
  }
  Vector<float> input_gradient(const StagePlaces& at) const { return one(gradients_[at.gradients]); }

 private:
  static constexpr schedule::Time nothing_comes = -1;

  void run_backward(const StagePlaces& at, schedule::Time cost) {
    const schedule::Time own = static_cast<schedule::Time>(outputs_[at.activations]);
    const schedule::Time next = arrival(output_gradients_[at.output_gradient], gradient_message_);
    clock_->run(std::max(own, next), cost, &gradients_[at.gradients]);
  }

  static schedule::Time arrival(float made, schedule::Time message) {
    return message == nothing_comes ? 0 : static_cast<schedule::Time>(made) + message;
  }

  static Vector<float> one(const float& time) { return {const_cast<float*>(&time), {1}}; }

  schedule::Cost cost_;
  RankClock* clock_;
  schedule::Time input_message_ = nothing_comes;
  schedule::Time gradient_message_ = nothing_comes;
  std::vector<float> outputs_;  // per activation slot
  std::vector<float> inputs_;
  std::vector<float> gradients_;
  std::vector<float> output_gradients_;
};

}  // namespace trilith::test
