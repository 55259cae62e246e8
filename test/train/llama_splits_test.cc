// Laws 2 and 3 for the Llama family: splits only round, for every TP, PP and DP; and at fixed TP and DP
// neither PP nor the schedule changes a bit.

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"
#include "test/train/llama_models.hpp"

namespace trilith::test {
namespace {

constexpr double tolerance = 1e-5;  // as in splits_test.cc

constexpr LlamaShape even_llama{.layers = 4,
                                .hidden = 32,
                                .heads = 8,
                                .kv_heads = 4,
                                .head_dimension = 8,
                                .feed_forward = 64,
                                .positions = 16,
                                .vocabulary = 64,
                                .rope_theta = 10000};

struct Outcome {
  StepReport gradients;
  WholeTensors tensors;
  std::vector<double> losses;  // of some steps
  WholeTensors trained;
  double evaluation = 0;
  std::vector<float> logits;
};

Outcome outcome(const Layout& layout, const LlamaShape& shape, int microbatches) {
  const Index length = shape.positions - 1;
  const Batch batch = reference::random_batch(shape, 8, length, 2);
  const auto trainer = make_trainer(layout, shape, options_for(batch, microbatches));
  trainer->load(reference::random_weights(config_of(shape), 1));
  Outcome outcome;
  outcome.evaluation = trainer->evaluate({batch});
  outcome.logits = trainer->next_token_logits({1, 5, 3, 0});
  outcome.gradients = trainer->gradients(batch);
  outcome.tensors = trainer->gradient_tensors();
  for (int step = 0; step < 2; ++step) outcome.losses.push_back(trainer->step(batch).loss);
  outcome.trained = trainer->weights();
  return outcome;
}

class LlamaSplits : public testing::TestWithParam<Layout> {};

TEST_P(LlamaSplits, OnlyRound) {
  for (const LlamaShape& shape : {odd_llama, tied(odd_llama), even_llama}) {
    SCOPED_TRACE(std::string(shape.tied ? "tied" : "untied") + ", hidden " + std::to_string(shape.hidden));
    const Outcome expected = outcome({}, shape, 1);
    const Outcome actual = outcome(GetParam(), shape, 2);
    EXPECT_EQ(actual.gradients.valid_tokens, expected.gradients.valid_tokens);
    EXPECT_NEAR(actual.gradients.loss, expected.gradients.loss, tolerance * expected.gradients.loss);
    EXPECT_NEAR(actual.gradients.gradient_norm, expected.gradients.gradient_norm,
                tolerance * expected.gradients.gradient_norm);
    expect_close(actual.tensors, expected.tensors, tolerance);
    EXPECT_NEAR(actual.evaluation, expected.evaluation, tolerance * expected.evaluation);
    expect_close(Tensors<float>{{"logits", actual.logits}}, Tensors<float>{{"logits", expected.logits}},
                 tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LlamaSplits, testing::ValuesIn(all_layouts()), name_of_layout);

TEST(LlamaSchedules, ChangeNoBit) {
  for (const LlamaShape& shape : {odd_llama, tied(odd_llama)}) {
    for (const auto& [tensor, data] : {std::pair(1, 1), std::pair(2, 2)}) {
      const Outcome expected = outcome({tensor, 1, data}, shape, 4);
      for (const int pipeline : {1, 2, 4}) {
        for (const Policy policy : {Policy::one_f_one_b, Policy::gpipe}) {
          const Layout layout{tensor, pipeline, data, policy};
          SCOPED_TRACE(testing::Message() << layout << (shape.tied ? ", tied" : ""));
          const Outcome actual = outcome(layout, shape, 4);
          EXPECT_EQ(actual.gradients.loss, expected.gradients.loss);
          EXPECT_EQ(actual.gradients.gradient_norm, expected.gradients.gradient_norm);
          EXPECT_EQ(actual.losses, expected.losses);
          EXPECT_EQ(actual.logits, expected.logits);
          expect_same_bits(actual.tensors, expected.tensors);
          expect_same_bits(actual.trained, expected.trained);
        }
      }
    }
  }
}

// Initial weights depend on the seed, not on the layout; none is left out.
TEST(LlamaInitialWeights, AreTheSameInEveryLayout) {
  const Batch batch = reference::random_batch(odd_llama, 8, 11, 9);
  const auto expected = make_trainer({}, odd_llama, options_for(batch, 2));
  for (const auto& [name, values] : expected->weights()) EXPECT_GT(square(values), 0) << name;
  for (const Layout& layout : all_layouts()) {
    SCOPED_TRACE(testing::Message() << layout);
    expect_same_bits(make_trainer(layout, odd_llama, options_for(batch, 2))->weights(), expected->weights());
  }
}

}  // namespace
}  // namespace trilith::test
