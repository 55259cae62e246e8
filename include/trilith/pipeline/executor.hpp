// Runs one rank's program: actions on its stages, and between them the exchanges with other ranks. It knows
// no schedule; whatever a program says is done, in its order.
//
// A group of transfers is posted as one, and waited for as late as may be: before the action that needs what
// it receives, or before the memory that it sends from is written again.
//
// Given a recorder, it records each action, the posting of each exchange, and the wait for it.
#pragma once

#include <utility>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/core/recorder.hpp>
#include <trilith/pipeline/stage.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/slots.hpp>

namespace trilith::inline v0 {

template <class Stage, communicator C>
class Executor {
 public:
  using stream = typename Stage::stream;

  // `exchanges`: those of this rank. `group`: the ranks of the pipeline. `stages`: one for each chunk of this
  // rank, with at least as many slots as schedule::slots() says. Group and stages must outlive the executor.
  Executor(const schedule::Pipeline& pipeline, std::vector<schedule::Exchange> exchanges, C& group,
           std::vector<Stage*> stages)
      : group_(&group),
        stages_(std::move(stages)),
        program_(pipeline.programs[group.rank()]),
        exchanges_(std::move(exchanges)),
        slots_(schedule::slots(pipeline, group.rank(), exchanges_)),
        handles_(exchanges_.size()),
        pending_(exchanges_.size(), false),
        microbatches_(pipeline.microbatches),
        input_arrives_(pipeline.chunks * pipeline.microbatches, none),
        gradient_arrives_(input_arrives_) {
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
      output_leaves_.emplace_back(slots_.activations.count[chunk], none);
      gradient_leaves_.emplace_back(slots_.gradients.count[chunk], none);
      chunk_before_.push_back(pipeline.chunk_before(group.rank(), chunk));
    }
  }

  // Returns when the program is done and everything sent has arrived.
  void run(const stream& s, Recorder* recorder = nullptr) {
    recorder_ = recorder;
    int next = 0;
    for (int i = 0; i <= static_cast<int>(program_.size()); ++i) {
      if (next < static_cast<int>(exchanges_.size()) && exchanges_[next].before == i) post(s, next++);
      if (i < static_cast<int>(program_.size())) perform(s, i);
    }
    for (int exchange = 0; exchange < next; ++exchange) wait(s, exchange);
  }

 private:
  using Handle = typename C::handle;
  static constexpr int none = -1;

  void wait(const stream& s, int exchange) {
    if (exchange == none || !pending_[exchange]) return;
    pending_[exchange] = false;
    const Recording recording(recorder_, s, Activity::wait, exchange);
    handles_[exchange].wait(s);
  }

  StagePlaces places(int chunk, int microbatch) const {
    return {.activations = slots_.activations.of(chunk, microbatch),
            .input = slots_.inputs.of(chunk, microbatch),
            .gradients = slots_.gradients.of(chunk, microbatch),
            .output_gradient = slots_.output_gradients.of(chunk, microbatch)};
  }

  int cell(int chunk, int microbatch) const { return chunk * microbatches_ + microbatch; }

  void perform(const stream& s, int index) {
    const schedule::Action& action = program_[index];
    const auto name = [&] { return name_of(action); };
    Stage& stage = *stages_[action.chunk];
    const StagePlaces at = places(action.chunk, action.microbatch);
    if (action.pass == schedule::Pass::forward) {
      wait(s, output_leaves_[action.chunk][at.activations]);
      wait(s, input_arrives_[cell(action.chunk, action.microbatch)]);
      const Recording recording(recorder_, s, Activity::action, index, name);
      take_input(s, action);
      return stage.forward(s, action.microbatch, at);
    }
    if (action.pass == schedule::Pass::backward_weight) {
      const Recording recording(recorder_, s, Activity::action, index, name);
      return stage.backward_weight(s, action.microbatch, at);
    }
    wait(s, gradient_leaves_[action.chunk][at.gradients]);
    wait(s, gradient_arrives_[cell(action.chunk, action.microbatch)]);
    const Recording recording(recorder_, s, Activity::action, index, name);
    if (action.pass == schedule::Pass::backward) {
      stage.backward(s, action.microbatch, at);
    } else {
      stage.backward_input(s, action.microbatch, at);
    }
    give_gradient(s, action);
  }

  // Where the stage before is on this rank too, its output is still in its slot: it waits for its backward.
  void take_input(const stream& s, const schedule::Action& action) {
    const int before = chunk_before_[action.chunk];
    if (before == none) return;
    copy(s, stages_[before]->output(places(before, action.microbatch)),
         stages_[action.chunk]->input(places(action.chunk, action.microbatch)));
  }

  // The gradient goes over at once, before this stage's slot is used again.
  void give_gradient(const stream& s, const schedule::Action& action) {
    const int before = chunk_before_[action.chunk];
    if (before == none) return;
    copy(s, stages_[action.chunk]->input_gradient(places(action.chunk, action.microbatch)),
         stages_[before]->output_gradient(places(before, action.microbatch)));
  }

  void post(const stream& s, int index) {
    const Recording recording(recorder_, s, Activity::post, index);
    messages_.clear();
    for (const schedule::Transfer& t : exchanges_[index].transfers) {
      const bool forward = t.pass == schedule::Pass::forward;
      const Stage& stage = *stages_[t.chunk];
      const StagePlaces at = places(t.chunk, t.microbatch);
      if (t.kind == schedule::Transfer::Kind::send) {
        messages_.push_back(Message::send(t.peer, forward ? stage.output(at) : stage.input_gradient(at)));
        (forward ? output_leaves_[t.chunk][at.activations] : gradient_leaves_[t.chunk][at.gradients]) = index;
      } else {
        messages_.push_back(Message::receive(t.peer, forward ? stage.input(at) : stage.output_gradient(at)));
        (forward ? input_arrives_ : gradient_arrives_)[cell(t.chunk, t.microbatch)] = index;
      }
    }
    handles_[index] = group_->exchange(s, messages_);
    pending_[index] = true;
  }

  C* group_;
  std::vector<Stage*> stages_;
  schedule::Program program_;
  std::vector<schedule::Exchange> exchanges_;
  schedule::Slots slots_;
  std::vector<Handle> handles_;  // per exchange
  std::vector<bool> pending_;    // per exchange: posted, and not waited for yet
  int microbatches_;
  std::vector<int> input_arrives_;     // per cell: the exchange that brings it, or none
  std::vector<int> gradient_arrives_;  // per cell
  std::vector<std::vector<int>>
      output_leaves_;  // [chunk][activation slot]: the exchange that last sent from it
  std::vector<std::vector<int>> gradient_leaves_;  // [chunk][gradient slot]
  std::vector<int> chunk_before_;                  // per chunk: see Pipeline::chunk_before
  std::vector<Message> messages_;
  Recorder* recorder_ = nullptr;
};

}  // namespace trilith::inline v0
