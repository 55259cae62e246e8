// Law 3, splits only round: against one rank, float32 gradients differ by rounding alone for every TP, PP
// and DP, and every count of microbatches.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/gpt.hpp"
#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

// Relative, of each tensor: sums over ranks are taken in another order than on one rank. A part that is lost,
// counted twice or averaged shows as 1e-2 and more.
constexpr double tolerance = 1e-5;

struct Gradients {
  StepReport report;
  WholeTensors tensors;
};

Gradients gradients(const Layout& layout, const GptShape& shape, const reference::Weights& weights,
                    const Batch& batch, int microbatches) {
  const auto trainer = make_trainer(layout, shape, options_for(batch, microbatches));
  trainer->load(weights);
  const StepReport report = trainer->gradients(batch);
  return {report, trainer->gradient_tensors()};
}

void expect_close(const Gradients& actual, const Gradients& expected) {
  EXPECT_EQ(actual.report.valid_tokens, expected.report.valid_tokens);
  EXPECT_NEAR(actual.report.loss, expected.report.loss, tolerance * expected.report.loss);
  EXPECT_NEAR(actual.report.gradient_norm, expected.report.gradient_norm,
              tolerance * expected.report.gradient_norm);
  test::expect_close(actual.tensors, expected.tensors, tolerance);
}

// What is split is odd, or divides into odd parts: a vocabulary of 37, padded to 38 and 40; heads of 5.
constexpr GptShape odd{.layers = 5, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37};
constexpr GptShape even{.layers = 4, .hidden = 64, .heads = 8, .positions = 16, .vocabulary = 128};
// Parts of 2, 2, 1 and none: the last of four tensor ranks holds nothing but padding.
constexpr GptShape few_tokens{.layers = 4, .hidden = 8, .heads = 4, .positions = 6, .vocabulary = 5};

class Splits : public testing::TestWithParam<Layout> {};

TEST_P(Splits, OnlyRound) {
  for (const auto& [shape, length] : {std::pair(odd, 11), std::pair(even, 16), std::pair(few_tokens, 5)}) {
    SCOPED_TRACE("vocabulary of " + std::to_string(shape.vocabulary));
    const reference::Weights weights = reference::random_weights(shape, 1);
    const Batch batch = reference::random_batch(shape, 8, length, 2);
    expect_close(gradients(GetParam(), shape, weights, batch, 2), gradients({}, shape, weights, batch, 1));
  }
}

// Data ranks differ in how many of their tokens count: of two, 1 and 7; of four, none, 1, none and 7. The
// mean is over the 8, divided once.
TEST_P(Splits, DivideOnceByAllValidTokens) {
  const GptShape shape{.layers = 4, .hidden = 8, .heads = 4, .positions = 8, .vocabulary = 13};
  const reference::Weights weights = reference::random_weights(shape, 3);
  Batch batch = reference::random_batch(shape, 8, 4, 4);
  const std::vector<Index> valid = {11, 24, 25, 26, 28, 29, 30, 31};  // of 32 tokens
  for (Index i = 0; i < 32; ++i) {
    const bool counts = std::find(valid.begin(), valid.end(), i) != valid.end();
    batch.targets[i] = counts ? static_cast<std::int32_t>(i % 13) : ignored_target;
  }
  const auto [loss, expected] = reference::loss_and_gradients(shape, weights, batch);
  for (const int m : {1, 2}) {
    const auto [report, tensors] = gradients(GetParam(), shape, weights, batch, m);
    EXPECT_EQ(report.valid_tokens, 8);
    EXPECT_NEAR(report.loss, loss, tolerance * loss);
    test::expect_close(tensors, expected, 3e-5);  // as law 1 says
  }
}

TEST_P(Splits, ChangeNoLossAndNoLogits) {
  const reference::Weights weights = reference::random_weights(odd, 5);
  const Batch batch = reference::random_batch(odd, 8, 11, 6);
  const auto actual = make_trainer(GetParam(), odd, options_for(batch, 2));
  const auto expected = make_trainer({}, odd, options_for(batch, 2));
  for (const auto& trainer : {actual.get(), expected.get()}) trainer->load(weights);
  const double loss = expected->evaluate({batch, batch});
  EXPECT_NEAR(actual->evaluate({batch, batch}), loss, tolerance * loss);
  for (const int count : {1, 4, 11}) {
    const std::vector<std::int32_t> prefix(batch.tokens.begin(), batch.tokens.begin() + count);
    test::expect_close(Tensors<float>{{"logits", actual->next_token_logits(prefix)}},
                       Tensors<float>{{"logits", expected->next_token_logits(prefix)}}, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Splits, testing::ValuesIn(all_layouts()), name_of_layout);

// Any count of microbatches is one batch: their gradients are added and divided once.
TEST(Microbatches, AddUpToOneBatch) {
  const reference::Weights weights = reference::random_weights(odd, 7);
  const Batch batch = reference::random_batch(odd, 48, 5, 8);
  const Gradients expected = gradients({}, odd, weights, batch, 1);
  for (const Layout& layout : {Layout{1, 1, 1}, Layout{2, 2, 2}, Layout{1, 4, 2, Policy::gpipe}}) {
    for (const int m : {1, 2, 3, 4, 6, 8}) {
      SCOPED_TRACE(testing::Message() << layout << ", " << m << " microbatches");
      expect_close(gradients(layout, odd, weights, batch, m), expected);
    }
  }
}

// Initial weights depend on the seed, not on the layout.
TEST(InitialWeights, AreTheSameInEveryLayout) {
  const Batch batch = reference::random_batch(odd, 8, 11, 9);
  const auto expected = make_trainer({}, odd, options_for(batch, 2));
  for (const Layout& layout : all_layouts()) {
    SCOPED_TRACE(testing::Message() << layout);
    expect_same_bits(make_trainer(layout, odd, options_for(batch, 2))->weights(), expected->weights());
  }
}

}  // namespace
}  // namespace trilith::test
