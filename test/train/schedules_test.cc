// Law 2, schedules don't compute: at fixed TP and DP, losses, gradients, their norm and the trained weights
// are bit-identical for every PP and every schedule.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

constexpr int steps = 3;

// What a run computes, of each step.
struct Outcome {
  std::vector<StepReport> reports;
  std::vector<WholeTensors> gradients;
  std::vector<WholeTensors> weights;
  double evaluation = 0;
  std::vector<float> logits;
};

// Of random weights, not the initial ones: in those biases are zero and gains are one. `change` edits the
// options.
template <class Change>
Outcome run(const Layout& layout, const GptShape& shape, Index sequences, int microbatches, Change&& change) {
  const Index length = shape.positions - 2;
  TrainerOptions options = options_for(reference::random_batch(shape, sequences, length, 0), microbatches);
  options.bucket = 1000;  // several of a stage, none of a whole number of layers
  change(options);
  const auto trainer = make_trainer(layout, shape, options);
  trainer->load(reference::random_weights(shape, 11));
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    outcome.reports.push_back(trainer->step(reference::random_batch(shape, sequences, length, 20 + step)));
    outcome.gradients.push_back(trainer->gradient_tensors());
    outcome.weights.push_back(trainer->weights());
  }
  outcome.evaluation = trainer->evaluate({reference::random_batch(shape, sequences, length, 30)});
  outcome.logits = trainer->next_token_logits({1, 5, 3, 0});
  return outcome;
}

Outcome run(const Layout& layout, const GptShape& shape, Index sequences, int microbatches) {
  return run(layout, shape, sequences, microbatches, [](TrainerOptions&) {});
}

void expect_same(const Outcome& actual, const Outcome& expected) {
  for (int step = 0; step < steps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step + 1));
    EXPECT_EQ(actual.reports[step].loss, expected.reports[step].loss);
    EXPECT_EQ(actual.reports[step].gradient_norm, expected.reports[step].gradient_norm);
    EXPECT_EQ(actual.reports[step].valid_tokens, expected.reports[step].valid_tokens);
    expect_same_bits(actual.gradients[step], expected.gradients[step]);
    expect_same_bits(actual.weights[step], expected.weights[step]);
  }
  EXPECT_EQ(actual.evaluation, expected.evaluation);
  EXPECT_EQ(actual.logits, expected.logits);
}

// Five layers do not divide by 2 or 4, nor 37 tokens by 2 or 4.
constexpr GptShape odd{.layers = 5, .hidden = 20, .heads = 4, .positions = 9, .vocabulary = 37};

struct TensorAndData {
  int tensor;
  int data;
};

class Schedules : public testing::TestWithParam<TensorAndData> {};

TEST_P(Schedules, DoNotCompute) {
  const auto [tensor, data] = GetParam();
  for (int m = 1; m <= 8; ++m) {
    const Index sequences = Index{m} * data;
    const Outcome expected = run({tensor, 1, data}, odd, sequences, m);
    for (const int pipeline : {1, 2, 4}) {
      for (const Policy schedule : {Policy::one_f_one_b, Policy::gpipe}) {
        const Layout layout{tensor, pipeline, data, schedule};
        SCOPED_TRACE(testing::Message() << layout << ", " << m << " microbatches");
        expect_same(run(layout, odd, sequences, m), expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Splits, Schedules,
                         testing::Values(TensorAndData{1, 1}, TensorAndData{1, 2}, TensorAndData{2, 1},
                                         TensorAndData{2, 2}, TensorAndData{4, 1}, TensorAndData{1, 4}),
                         [](const auto& info) {
                           return "TP" + std::to_string(info.param.tensor) + "DP" +
                                  std::to_string(info.param.data);
                         });

TEST(LayersPerStage, GivenByHandChangesNoBit) {
  const Outcome expected = run({2, 1, 1}, odd, 6, 3);
  for (const std::vector<int>& split :
       std::vector<std::vector<int>>{{1, 4}, {4, 1}, {2, 3}, {1, 1, 2, 1}, {2, 1, 1, 1}, {1, 1, 1, 2}}) {
    const Layout layout{2, static_cast<int>(split.size()), 1};
    SCOPED_TRACE(testing::Message() << layout << ", split " << testing::PrintToString(split));
    expect_same(run(layout, odd, 6, 3, [&](TrainerOptions& o) { o.layers_per_stage = split; }), expected);
  }
}

TEST(Buckets, OfAnySizeChangeNoBit) {
  const Outcome expected = run({1, 2, 2}, odd, 4, 2);
  for (const Index bucket : {7, 100, 1 << 22}) {
    SCOPED_TRACE(bucket);
    expect_same(run({1, 2, 2}, odd, 4, 2, [&](TrainerOptions& o) { o.bucket = bucket; }), expected);
  }
}

// Layers that don't divide by the stages: each is on one stage, in order, and none is dropped.
TEST(Layers, ThatDoNotDivideAreEachOnOneStage) {
  for (const int layers : {4, 5, 7, 30}) {
    for (const int pipeline : {2, 4}) {
      const Layout layout{1, pipeline, 1};
      const GptShape shape{.layers = layers, .hidden = 8, .heads = 2, .positions = 6, .vocabulary = 11};
      SCOPED_TRACE(testing::Message() << layout << ", " << layers << " layers");
      const Batch batch = reference::random_batch(shape, 2, 4, 1);
      const auto trainer = make_trainer(layout, shape, options_for(batch, 2));
      std::vector<std::string> norms;  // the first parameter of each layer
      for (int rank = 0; rank < pipeline; ++rank) {
        for (const Parameter<float>& p : trainer->parameters(rank)) {
          if (p.spec.name.ends_with(".ln_1.weight")) norms.push_back(p.spec.name);
        }
      }
      std::vector<std::string> expected;
      for (int i = 0; i < layers; ++i) expected.push_back("h." + std::to_string(i) + ".ln_1.weight");
      EXPECT_EQ(norms, expected);

      const auto whole = make_trainer({}, shape, options_for(batch, 2));
      for (const auto& one : {trainer.get(), whole.get()}) {
        one->load(reference::random_weights(shape, 2));
        one->gradients(batch);
      }
      expect_same_bits(trainer->gradient_tensors(), whole->gradient_tensors());
    }
  }
}

}  // namespace
}  // namespace trilith::test
