// A stage: a model, or a part of one, with the memory that its program's microbatches in flight need.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/ops/accumulate.hpp>

namespace trilith::inline v0 {

// Places for microbatches, of the kinds that schedule::Slots lists; no gradients where nothing goes backward.
struct StageSlots {
  int activations = 1;
  int inputs = 1;
  int gradients = 0;
  int output_gradients = 0;
  bool apart = false;  // input and weight parts are separate actions
};

// Where one microbatch lies, among the stage's slots.
struct StagePlaces {
  int activations = 0;
  int input = 0;
  int gradients = 0;
  int output_gradient = 0;
};

template <class Model>
class Stage {
 public:
  using device_type = typename Model::layer_config::device_type;
  using stream = typename device_type::stream;
  using element = typename Model::layer_config::element;

  // `model` must outlive the stage.
  Stage(const Model& model, bool last, const TokenShape& tokens, const StageSlots& slots,
        typename device_type::memory& memory)
      : model_(&model), last_(last), tokens_(tokens) {
    std::tie(allocation_, plan_) = allocate_planned<device_type>(memory, [&](Arena& arena) {
      Plan plan;
      for (int i = 0; i < slots.activations; ++i) {
        plan.activations.push_back(model.activations(arena, tokens));
      }
      if (slots.activations > 0) plan.activation_bytes = arena.bytes() / slots.activations;
      for (int i = 0; i < slots.inputs; ++i) plan.inputs.push_back(model.boundary(arena, tokens));
      for (int i = 0; i < slots.gradients; ++i) {
        plan.gradients.push_back(model.gradients(arena, tokens, slots.apart));
      }
      for (int i = 0; i < slots.output_gradients; ++i) {
        plan.output_gradients.push_back(model.boundary(arena, tokens));
      }
      plan.scratch = model.scratch(arena, tokens);
      return plan;
    });
  }

  // What the following passes work on. losses: one for each microbatch, filled on the last stage.
  // loss_scale: 1 / valid tokens of the global batch. `final` is called with each range of the gradient
  // buffer that the last microbatch's weight gradients have completed.
  void begin(std::span<const Microbatch> microbatches, Vector<double> losses, float loss_scale,
             std::function<void(Index, Index)> final) {
    microbatches_ = microbatches;
    loss_scale_ = loss_scale;
    final_ = std::move(final);
    losses_ = losses;
  }

  void forward(const stream& s, int microbatch, const StagePlaces& at) {
    typename Model::Activations& a = plan_.activations[at.activations];
    a.input = plan_.inputs[at.input];
    model_->forward(s, microbatches_[microbatch], a, plan_.scratch);
    if (last_) model_->loss(s, microbatches_[microbatch], a, losses_.slice(0, microbatch, 1));
  }

  void backward(const stream& s, int microbatch, const StagePlaces& at) {
    model_->backward(s, microbatches_[microbatch], plan_.activations[at.activations], gradients(at),
                     plan_.scratch, loss_scale_, accumulate(microbatch), reporter(microbatch));
  }

  void backward_input(const stream& s, int microbatch, const StagePlaces& at) {
    model_->backward_input(s, microbatches_[microbatch], plan_.activations[at.activations], gradients(at),
                           plan_.scratch, loss_scale_, accumulate(microbatch));
  }

  void backward_weight(const stream& s, int microbatch, const StagePlaces& at) {
    model_->backward_weight(s, microbatches_[microbatch], plan_.activations[at.activations], gradients(at),
                            accumulate(microbatch), reporter(microbatch));
  }

  // What travels between stages, contiguous: (rows, hidden).
  Vector<element> input(const StagePlaces& at) const { return flat(plan_.inputs[at.input]); }
  Vector<const element> output(const StagePlaces& at) const {
    return flat(model_->output(plan_.activations[at.activations]));
  }
  Vector<element> output_gradient(const StagePlaces& at) const {
    return flat(plan_.output_gradients[at.output_gradient]);
  }
  Vector<const element> input_gradient(const StagePlaces& at) const {
    return flat(model_->input_gradient(plan_.gradients[at.gradients]));
  }

  const typename Model::Activations& activations(int slot) const { return plan_.activations[slot]; }
  const TokenShape& tokens() const { return tokens_; }
  std::size_t bytes() const { return allocation_.bytes(); }

  // What the forward pass of one microbatch leaves for its backward pass, in bytes.
  std::size_t activation_bytes() const { return plan_.activation_bytes; }

 private:
  struct Plan {
    std::vector<typename Model::Activations> activations;
    std::size_t activation_bytes = 0;     // of one of them
    std::vector<Matrix<element>> inputs;  // (rows, hidden)
    std::vector<typename Model::Gradients> gradients;
    std::vector<Matrix<element>> output_gradients;  // (rows, hidden)
    typename Model::Scratch scratch;
  };

  const typename Model::Gradients& gradients(const StagePlaces& at) {
    typename Model::Gradients& g = plan_.gradients[at.gradients];
    g.output = plan_.output_gradients[at.output_gradient];
    return g;
  }

  // Microbatch 0 comes first (schedules keep their gradients ascending) and overwrites.
  static Accumulate accumulate(int microbatch) { return microbatch == 0 ? Accumulate::no : Accumulate::yes; }

  auto reporter(int microbatch) const {
    const bool last = microbatch + 1 == static_cast<int>(microbatches_.size());
    return [this, last](Index first, Index end) {
      if (last && final_) final_(first, end);
    };
  }

  const Model* model_;
  bool last_;
  TokenShape tokens_;
  typename device_type::allocation allocation_;
  Plan plan_;
  std::span<const Microbatch> microbatches_;
  float loss_scale_ = 1;
  std::function<void(Index, Index)> final_;
  Vector<double> losses_;
};

}  // namespace trilith::inline v0
