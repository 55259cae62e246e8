// Law 1, reference: with all axes 1, loss and gradients equal a plain float64 reference.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/adamw.hpp"
#include "test/reference/gpt.hpp"
#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

// ‖a − b‖ / ‖b‖ of each tensor. Sums of some hundred to thousand float32 terms through a few layers round by
// about 1e-6; a mistake in one row or column shows as 1e-2 and more.
constexpr double tolerance = 3e-5;

struct Case {
  const char* what;
  GptShape shape;
  Index sequences;
  Index length;
  std::vector<int> microbatches;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.what; }
};

const std::vector<Case> cases = {
    {"nothing divides a vector",
     {.layers = 2, .hidden = 24, .heads = 3, .positions = 13, .vocabulary = 37},
     6,
     11,
     {1, 2, 3, 6}},
    {"odd head dimension",
     {.layers = 3, .hidden = 35, .heads = 7, .positions = 9, .vocabulary = 101},
     4,
     9,
     {1, 4}},
    {"round", {.layers = 2, .hidden = 64, .heads = 4, .positions = 32, .vocabulary = 128}, 4, 32, {1, 2, 4}},
    // Three, not two: between two numbers a LayerNorm keeps hardly more than the sign, and its gradient is
    // rounding.
    {"as small as it gets",
     {.layers = 1, .hidden = 3, .heads = 1, .positions = 3, .vocabulary = 2},
     2,
     2,
     {1, 2}},
    {"sequences of one token",
     {.layers = 2, .hidden = 12, .heads = 2, .positions = 4, .vocabulary = 19},
     5,
     1,
     {1, 5}},
    {"many tiles of attention",
     {.layers = 1, .hidden = 20, .heads = 2, .positions = 301, .vocabulary = 50},
     1,
     301,
     {1}},
    {"more layers than anything else",
     {.layers = 9, .hidden = 8, .heads = 4, .positions = 8, .vocabulary = 11},
     3,
     7,
     {1, 3}},
};

class Reference : public testing::TestWithParam<Case> {};

TEST_P(Reference, LossNormAndGradientsEqualFloat64) {
  const auto& [what, shape, sequences, length, microbatches] = GetParam();
  const reference::Weights weights = reference::random_weights(shape, 1);
  const Batch batch = reference::random_batch(shape, sequences, length, 2);
  const auto [loss, gradients] = reference::loss_and_gradients(shape, weights, batch);

  for (const int m : microbatches) {
    SCOPED_TRACE(std::to_string(m) + " microbatches");
    const auto trainer = make_trainer({}, shape, options_for(batch, m));
    trainer->load(weights);
    // Twice: what the first pass left in gradients and activations must not show in the second.
    for (int pass = 0; pass < 2; ++pass) {
      const StepReport report = trainer->gradients(batch);
      EXPECT_NEAR(report.loss, loss, tolerance * loss);
      EXPECT_NEAR(report.gradient_norm, reference::global_norm(gradients), tolerance * report.gradient_norm);
      EXPECT_EQ(
          report.valid_tokens,
          std::ssize(batch.targets) - std::count(batch.targets.begin(), batch.targets.end(), ignored_target));
      expect_close(trainer->gradient_tensors(), gradients, tolerance);
    }
  }
}

TEST_P(Reference, EvaluationIsTheLossOfAllBatches) {
  const auto& [what, shape, sequences, length, microbatches] = GetParam();
  const reference::Weights weights = reference::random_weights(shape, 3);
  // Two batches and one of both: the mean is over the valid tokens of all.
  Batch both = reference::random_batch(shape, 2 * sequences, length, 4);
  const auto half = [&](Index first) {
    const auto part = [&](const std::vector<std::int32_t>& all) {
      return std::vector(all.begin() + first, all.begin() + first + sequences * length);
    };
    return Batch{sequences, length, part(both.tokens), part(both.targets)};
  };
  const double loss = reference::loss_and_gradients(shape, weights, both).loss;

  const auto trainer = make_trainer({}, shape, options_for(half(0), microbatches.back()));
  trainer->load(weights);
  EXPECT_NEAR(trainer->evaluate({half(0), half(sequences * length)}), loss, tolerance * loss);
  EXPECT_NEAR(trainer->evaluate({both}), loss, tolerance * loss);
}

TEST_P(Reference, LogitsOfEveryPrefixEqualFloat64) {
  const auto& [what, shape, sequences, length, microbatches] = GetParam();
  const reference::Weights weights = reference::random_weights(shape, 5);
  const Batch batch = reference::random_batch(shape, sequences, length, 6);
  const auto trainer = make_trainer({}, shape, options_for(batch, 1));
  trainer->load(weights);
  for (Index count = 1; count <= length; count += 1 + length / 7) {
    const std::vector<std::int32_t> prefix(batch.tokens.begin(), batch.tokens.begin() + count);
    const reference::Values all = reference::logits(shape, weights, prefix, 1, count);
    const reference::Values last(all.end() - shape.vocabulary, all.end());
    expect_close(Tensors<float>{{"logits", trainer->next_token_logits(prefix)}},
                 Tensors<double>{{"logits", last}}, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reference, testing::ValuesIn(cases));

// What the weights become is the optimizer's affair too: clipping, decay and the learning rate's warm-up.
TEST(Training, FollowsAFloat64AdamW) {
  const GptShape shape{.layers = 2, .hidden = 24, .heads = 3, .positions = 13, .vocabulary = 37};
  const reference::Weights initial = reference::random_weights(shape, 8);
  const Batch first = reference::random_batch(shape, 4, 11, 9);
  TrainerOptions options = options_for(first, 2);
  // An epsilon that is large beside rounding: with a small one an element whose gradient vanishes moves by
  // the sign of its rounding.
  options.optimizer = {.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-3f, .weight_decay = 0.1f};
  options.learning_rate = {.peak = 0.05, .least = 0.01, .warm_up = 2, .steps = 5};
  options.clip = 0.5;
  const auto trainer = make_trainer({}, shape, options);
  trainer->load(initial);

  reference::Weights expected = initial;
  reference::AdamWState state(expected);
  for (int step = 1; step <= 5; ++step) {
    const Batch batch = reference::random_batch(shape, 4, 11, 9 + step);
    const auto [loss, gradients] = reference::loss_and_gradients(shape, expected, batch);
    const StepReport report = trainer->step(batch);
    EXPECT_EQ(report.step, step);
    EXPECT_NEAR(report.loss, loss, tolerance * loss);
    const double norm = reference::adamw_step({.learning_rate = options.learning_rate.at(step),
                                               .beta1 = double{options.optimizer.beta1},
                                               .beta2 = double{options.optimizer.beta2},
                                               .epsilon = double{options.optimizer.epsilon},
                                               .weight_decay = double{options.optimizer.weight_decay},
                                               .max_norm = options.clip},
                                              gradients, expected, state);
    EXPECT_GT(norm, options.clip) << "nothing is clipped";
    EXPECT_NEAR(report.gradient_norm, norm, tolerance * norm);
    expect_close(trainer->weights(), expected, tolerance);
  }
}

}  // namespace
}  // namespace trilith::test
