// Runs one rank's program: actions on its stages, and between them the exchanges with other ranks. It knows
// no schedule; whatever a program says is done, in its order.
//
// A group of transfers is posted as one. Where it receives, the next action waits for it; where it only
// sends, it is waited for when the memory it sends from is written again.
#pragma once

#include <utility>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/schedule/pipeline.hpp>

namespace trilith::inline v0 {

template <class Stage, communicator C>
class Executor {
 public:
  using stream = typename Stage::stream;

  // `group`: the ranks of the pipeline. `stages`: one for each chunk of this rank, with at least as many
  // slots as schedule::slots() says. All must outlive the executor.
  Executor(const schedule::Pipeline& pipeline, C& group, std::vector<Stage*> stages)
      : group_(&group),
        stages_(std::move(stages)),
        program_(pipeline.programs[group.rank()]),
        exchanges_(schedule::exchanges(pipeline, group.rank())),
        slots_(schedule::slots(pipeline, group.rank())) {
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
      pending_outputs_.emplace_back(slots_.activations.count[chunk]);
      pending_gradients_.emplace_back(slots_.gradients.count[chunk]);
      chunk_before_.push_back(pipeline.chunk_before(group.rank(), chunk));
    }
  }

  // Returns when the program is done and everything sent has arrived.
  void run(const stream& s) {
    auto exchange = exchanges_.begin();
    for (int i = 0; i <= static_cast<int>(program_.size()); ++i) {
      if (exchange != exchanges_.end() && exchange->before == i) perform(s, *exchange++);
      if (i < static_cast<int>(program_.size())) perform(s, program_[i]);
    }
    for (auto& chunk : pending_outputs_) wait_all(s, chunk);
    for (auto& chunk : pending_gradients_) wait_all(s, chunk);
  }

 private:
  using Handle = typename C::handle;

  static void wait_all(const stream& s, std::vector<Handle>& handles) {
    for (Handle& handle : handles) handle.wait(s);
  }

  void perform(const stream& s, const schedule::Action& action) {
    Stage& stage = *stages_[action.chunk];
    const int slot = slots_.activations.of(action.chunk, action.microbatch);
    const int gradient_slot = slots_.gradients.of(action.chunk, action.microbatch);
    switch (action.pass) {
      case schedule::Pass::forward:
        pending_outputs_[action.chunk][slot].wait(s);
        take_input(s, action);
        return stage.forward(s, action.microbatch, slot);
      case schedule::Pass::backward:
        pending_gradients_[action.chunk][gradient_slot].wait(s);
        stage.backward(s, action.microbatch, slot, gradient_slot);
        return give_gradient(s, action);
      case schedule::Pass::backward_input:
        pending_gradients_[action.chunk][gradient_slot].wait(s);
        stage.backward_input(s, action.microbatch, slot, gradient_slot);
        return give_gradient(s, action);
      case schedule::Pass::backward_weight:
        return stage.backward_weight(s, action.microbatch, slot, gradient_slot);
    }
  }

  // Where the stage before is on this rank too, its output is still in its slot: it waits for its backward.
  void take_input(const stream& s, const schedule::Action& action) {
    const int before = chunk_before_[action.chunk];
    if (before < 0) return;
    copy(s, stages_[before]->output(slots_.activations.of(before, action.microbatch)),
         stages_[action.chunk]->input(slots_.activations.of(action.chunk, action.microbatch)));
  }

  // The gradient goes over at once, before this stage's slot is used again.
  void give_gradient(const stream& s, const schedule::Action& action) {
    const int before = chunk_before_[action.chunk];
    if (before < 0) return;
    copy(s, stages_[action.chunk]->input_gradient(slots_.gradients.of(action.chunk, action.microbatch)),
         stages_[before]->output_gradient(slots_.gradients.of(before, action.microbatch)));
  }

  void perform(const stream& s, const schedule::Exchange& exchange) {
    messages_.clear();
    bool receives = false;
    Handle* pending = nullptr;
    for (const schedule::Transfer& transfer : exchange.transfers) {
      const bool forward = transfer.pass == schedule::Pass::forward;
      const int slot =
          (forward ? slots_.activations : slots_.gradients).of(transfer.chunk, transfer.microbatch);
      Stage& stage = *stages_[transfer.chunk];
      if (transfer.kind == schedule::Transfer::Kind::send) {
        const Vector<float> data = forward ? stage.output(slot) : stage.input_gradient(slot);
        messages_.push_back(Message::send(transfer.peer, data));
        pending = &(forward ? pending_outputs_ : pending_gradients_)[transfer.chunk][slot];
      } else {
        const Vector<float> data = forward ? stage.input(slot) : stage.output_gradient(slot);
        messages_.push_back(Message::receive(transfer.peer, data));
        receives = true;
      }
    }
    Handle handle = group_->exchange(s, messages_);
    if (receives) {
      handle.wait(s);
    } else {
      *pending = std::move(handle);
    }
  }

  C* group_;
  std::vector<Stage*> stages_;
  schedule::Program program_;
  std::vector<schedule::Exchange> exchanges_;
  schedule::Slots slots_;
  std::vector<int> chunk_before_;  // per chunk: see Pipeline::chunk_before
  std::vector<std::vector<Handle>> pending_outputs_;    // [chunk][activation slot]
  std::vector<std::vector<Handle>> pending_gradients_;  // [chunk][gradient slot]
  std::vector<Message> messages_;
};

}  // namespace trilith::inline v0
