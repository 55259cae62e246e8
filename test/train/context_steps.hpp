// Steps of a layout with context ranks beside those of one rank.
#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>
#include <trilith/core/config.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/llama_shape.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/trainer_options.hpp>

#include "test/reference/gpt.hpp"
#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"
#include "test/train/concrete_trainer.hpp"
#include "test/train/llama_models.hpp"

namespace trilith::test {

inline constexpr GptShape context_shape{
    .layers = 4, .hidden = 32, .heads = 8, .positions = 20, .vocabulary = 37};

// Keys that three heads of queries share.
inline constexpr LlamaShape context_llama{.layers = 4,
                                          .hidden = 18,
                                          .heads = 12,
                                          .kv_heads = 4,
                                          .head_dimension = 6,
                                          .feed_forward = 28,
                                          .positions = 20,
                                          .vocabulary = 37,
                                          .rope_theta = 100};

inline reference::Weights random_weights_of(const GptShape& shape) {
  return reference::random_weights(shape, 1);
}
inline reference::Weights random_weights_of(const LlamaShape& shape) {
  return reference::random_weights(config_of(shape), 1);
}

// Law 3 with context ranks: loss, gradients, their norm, validation loss and logits are those of one rank,
// but for rounding; and so is a step's effect. Some targets do not count, so that context ranks have unequal
// numbers.
template <class Config, template <class> class Model = Gpt, class Shape = GptShape>
void expect_the_steps_of_one_rank(Index length, Padding padding = Padding::no,
                                  const Shape& shape = context_shape) {
  SCOPED_TRACE("sequences of " + std::to_string(length));
  constexpr double tolerance = 1e-5;  // relative, of each tensor
  const reference::Weights weights = random_weights_of(shape);
  Batch batch = reference::random_batch(shape, 8, length, 2);
  for (Index i = 0; i < length / 2; ++i) batch.targets[static_cast<std::size_t>(i)] = ignored_target;

  TrainerOptions options = options_for(batch, 2);
  const auto expected = make_trainer({}, shape, options);
  options.padding = padding;
  constexpr int ranks = Config::template policy<ParallelismCategory>::shape.world();
  ConcreteTrainer<Config, Model> actual(shape, options, ranks);
  AnyTrainer& trainer = actual;
  expected->load(weights);
  trainer.load(weights);

  const StepReport one = expected->gradients(batch);
  const StepReport split = trainer.gradients(batch);
  EXPECT_EQ(split.valid_tokens, one.valid_tokens);
  EXPECT_NEAR(split.loss, one.loss, tolerance * one.loss);
  EXPECT_NEAR(split.gradient_norm, one.gradient_norm, tolerance * one.gradient_norm);
  expect_close(trainer.gradient_tensors(), expected->gradient_tensors(), tolerance);
  EXPECT_EQ(trainer.gradients(batch).gradient_norm, split.gradient_norm) << "something is left over";

  const double loss = expected->evaluate({batch});
  EXPECT_NEAR(trainer.evaluate({batch}), loss, tolerance * loss);
  for (const Index count : {Index{1}, (length + 1) / 2, length}) {
    const std::vector<std::int32_t> prefix(batch.tokens.begin(), batch.tokens.begin() + count);
    expect_close(Tensors<float>{{"logits", trainer.next_token_logits(prefix)}},
                 Tensors<float>{{"logits", expected->next_token_logits(prefix)}}, tolerance);
  }

  for (int step = 0; step < 2; ++step) {
    const double before = expected->step(batch).loss;
    EXPECT_NEAR(trainer.step(batch).loss, before, 10 * tolerance * before);
  }
}

}  // namespace trilith::test
