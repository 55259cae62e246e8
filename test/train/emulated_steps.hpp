// A step of training on a device whose kernels the emulator runs, beside the same step of one rank of the
// host in float32.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/comm/thread_world.hpp>
#include <trilith/core/config.hpp>
#include <trilith/core/precision.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/llama.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/trainer.hpp>
#include <trilith/train/trainer_options.hpp>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/support/gather.hpp"
#include "test/train/llama_models.hpp"

namespace trilith::test {

// Heads of 8, so that the rows of a fused projection are aligned as kernels of attention ask.
inline constexpr GptShape emulated_gpt{
    .layers = 2, .hidden = 32, .heads = 4, .positions = 16, .vocabulary = 37};
// Two heads of queries to each of keys.
inline constexpr LlamaShape emulated_llama{.layers = 2,
                                           .hidden = 32,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .head_dimension = 8,
                                           .feed_forward = 48,
                                           .positions = 16,
                                           .vocabulary = 37,
                                           .rope_theta = 100};

// Normal numbers, those of the gains of norms about one.
inline reference::Weights emulated_weights(const GptShape& shape) {
  return reference::random_weights(shape, 1, 0.1f);
}
inline reference::Weights emulated_weights(const LlamaShape& shape) {
  return reference::random_weights(config_of(shape), 1, 0.1f);
}

inline Batch emulated_batch() {
  return reference::random_batch(emulated_gpt, 4, 16, 3);
}

inline TrainerOptions emulated_options() {
  TrainerOptions options;
  options.batch = 4;
  options.sequence = 16;
  options.microbatches = 2;
  // With so large an epsilon an update is in proportion to its gradient, instead of showing little but its
  // sign: so an error of the weights is as large as one of the gradients, and not larger.
  options.optimizer.epsilon = 1;
  options.learning_rate.peak = 0.5;
  options.threads_per_rank = 1;
  options.poison = true;
  return options;
}

// A trainer with its world, that holds emulated_weights().
template <template <class> class Model, class Layout>
class LoadedTrainer {
  using T = Trainer<Model, Layout>;

 public:
  using element = typename T::Model::layer_config::element;
  using device_type = typename T::Model::layer_config::device_type;

  LoadedTrainer(const typename T::Shape& shape, const TrainerOptions& options)
      : world_(T::parallel.world()), trainer_(shape, world_, options) {
    trainer_.load(Source{emulated_weights(shape)});
  }

  T& operator*() { return trainer_; }
  T* operator->() { return &trainer_; }

  WholeTensors weights() const { return whole(&Parameter<element>::value); }

  // Of the loss itself.
  WholeTensors gradients(const StepReport& report) const {
    WholeTensors tensors = whole(&Parameter<element>::gradient);
    for (auto& [name, values] : tensors) {
      for (float& x : values) x = static_cast<float>(x / report.loss_scale);
    }
    return tensors;
  }

  // Whether layers compute with the weights, rounded.
  bool computes_with_its_weights() const {
    finish();
    for (int rank = 0; rank < world_.size(); ++rank) {
      for (const Parameter<element>& p : trainer_.rank(rank).parameters()) {
        for (Index i = 0; i < p.value.size(); ++i) {
          if (static_cast<float>(p.weight(i)) != static_cast<float>(element(p.value(i)))) return false;
        }
      }
    }
    return true;
  }

 private:
  // Returns when all work of the ranks is done, as events() does.
  void finish() const {
    for (int rank = 0; rank < world_.size(); ++rank) static_cast<void>(trainer_.rank(rank).events());
  }

  struct Source {
    struct Tensor {
      const std::vector<double>& values;
      void read(Index first, Index count, float* to) const { std::copy_n(values.begin() + first, count, to); }
    };
    reference::Weights weights;
    Tensor tensor(const std::string& name) const { return {weights.at(name)}; }
  };

  WholeTensors whole(Vector<float> Parameter<element>::*part) const {
    finish();
    std::vector<const Parameters<device_type, element>*> ranks;
    for (int rank = 0; rank < world_.size(); ++rank) ranks.push_back(&trainer_.rank(rank).parameters());
    return gather(T::Model::tensors(trainer_.plan().model), ranks, part);
  }

  typename ThreadWorldOf<device_type>::type world_;
  T trainer_;
};

struct Step {
  StepReport report;
  WholeTensors gradients;
  WholeTensors weights;
  std::vector<float> logits;  // after it
};

template <class Loaded>
Step step_of(Loaded& trainer) {
  Step step;
  step.report = trainer->step(emulated_batch());
  step.gradients = trainer.gradients(step.report);
  step.weights = trainer.weights();
  step.logits = trainer->next_token_logits({3, 1, 4, 1, 5});
  return step;
}

// Of one rank of the host.
template <template <class> class Model>
const Step& host_step(const typename Trainer<Model, Config<>>::Shape& shape) {
  static std::map<bool, Step> steps;  // by what tests vary: whether an output head is tied
  bool tied = true;
  if constexpr (requires { shape.tied; }) tied = shape.tied;
  if (!steps.contains(tied)) {
    LoadedTrainer<Model, Config<>> trainer(shape, emulated_options());
    steps[tied] = step_of(trainer);
  }
  return steps[tied];
}

// Relative errors, those of tensors in norm.
struct Tolerance {
  double loss;
  double gradients;
  double weights;
};

// About twice what was measured. Float32: sums in other orders, exponentials that are off by some 1e-7.
inline constexpr Tolerance float32_tolerance{.loss = 1e-7, .gradients = 3e-6, .weights = 2e-7};
// An element is rounded by up to 2^-9, on the way to a gradient some dozens of times.
inline constexpr Tolerance bfloat16_tolerance{.loss = 1e-3, .gradients = 3.5e-2, .weights = 3e-3};
// By up to 2^-12.
inline constexpr Tolerance float16_tolerance{.loss = 1e-4, .gradients = 4e-3, .weights = 3e-4};

inline void expect_step(const Step& actual, const Step& expected, const Tolerance& tolerance) {
  EXPECT_FALSE(actual.report.skipped);
  EXPECT_EQ(actual.report.valid_tokens, expected.report.valid_tokens);
  EXPECT_NEAR(actual.report.loss, expected.report.loss, tolerance.loss * expected.report.loss);
  EXPECT_NEAR(actual.report.gradient_norm, expected.report.gradient_norm,
              tolerance.gradients * expected.report.gradient_norm);
  expect_close(actual.gradients, expected.gradients, tolerance.gradients);
  expect_close(actual.weights, expected.weights, tolerance.weights);
  expect_close(Tensors<float>{{"logits", actual.logits}}, Tensors<float>{{"logits", expected.logits}},
               tolerance.gradients);
}

template <template <class> class Model, device D, class Format, class... Policies>
void expect_the_step_of_the_host(const typename Trainer<Model, Config<>>::Shape& shape,
                                 const Tolerance& tolerance) {
  LoadedTrainer<Model, Config<Device<D>, Precision<Format>, Policies...>> trainer(shape, emulated_options());
  EXPECT_TRUE(trainer.computes_with_its_weights());
  expect_step(step_of(trainer), host_step<Model>(shape), tolerance);
  EXPECT_TRUE(trainer.computes_with_its_weights());
}

}  // namespace trilith::test
