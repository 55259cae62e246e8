// Bad input to a trainer: one sentence that says what is wrong, at once, from any layout. What is refused
// before a step leaves the trainer as it was.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/support/files.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr GptShape shape{.layers = 4, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37};
constexpr Layout layout{2, 2, 2};

Batch batch() {
  return reference::random_batch(shape, 8, 11, 1);
}

// What is said of a trainer that cannot be made.
std::string refusal(const Layout& layout, const GptShape& shape, const TrainerOptions& options,
                    std::optional<int> ranks = {}) {
  return error_of([&] { make_trainer(layout, shape, options, ranks); });
}

TEST(BadShape, IsRefusedWithItsNumbers) {
  const auto said = [](const Layout& layout, GptShape changed) {
    return refusal(layout, changed, options_for(batch(), 2));
  };
  EXPECT_THAT(said({1, 1, 1}, {.layers = 0, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37}),
              AllOf(HasSubstr("at least one layer"), HasSubstr("layers=0")));
  EXPECT_THAT(said({1, 1, 1}, {.layers = 4, .hidden = 20, .heads = 3, .positions = 12, .vocabulary = 37}),
              AllOf(HasSubstr("hidden must be a multiple of heads"), HasSubstr("hidden=20, heads=3")));
  EXPECT_THAT(said({4, 1, 1}, {.layers = 4, .hidden = 18, .heads = 6, .positions = 12, .vocabulary = 37}),
              AllOf(HasSubstr("the number of heads must be a multiple of TP"), HasSubstr("6 heads, TP=4")));
  EXPECT_THAT(said({1, 4, 1}, {.layers = 3, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37}),
              AllOf(HasSubstr("every pipeline rank needs at least one layer"), HasSubstr("3 layers, PP=4")));
  EXPECT_THAT(said({4, 1, 1}, {.layers = 4, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 3}),
              AllOf(HasSubstr("vocabulary cannot be split over TP"), HasSubstr("vocabulary=3, TP=4")));
}

// At once, instead of running out of memory.
TEST(BadShape, TooLargeForTheMachineIsRefused) {
  const auto said = [](const GptShape& shape) { return refusal({1, 1, 1}, shape, options_for(batch(), 2)); };
  EXPECT_THAT(said({.layers = 2147483647, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37}),
              AllOf(HasSubstr("at most 2^16 layers"), HasSubstr("layers=2147483647")));
  EXPECT_THAT(said({.layers = 2, .hidden = 1 << 18, .heads = 4, .positions = 12, .vocabulary = 37}),
              HasSubstr("cannot allocate "));
}

TEST(BadOptions, AreRefusedWithTheirNumbers) {
  const auto said = [](auto change, std::optional<int> ranks = {}) {
    TrainerOptions options = options_for(batch(), 2);
    change(options);
    return refusal(layout, shape, options, ranks);
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_THAT(said([](auto&) {}, 3), HasSubstr("the layout has 8 ranks, the world 3"));
  EXPECT_THAT(
      said([](auto& o) { o.batch = 6; }),
      AllOf(HasSubstr("a batch of 6 sequences cannot be divided over DP=2 data ranks and 2 microbatches"),
            HasSubstr("a multiple of 4")));
  EXPECT_THAT(said([](auto& o) { o.microbatches = 3; }), HasSubstr("a multiple of 6"));
  EXPECT_THAT(said([](auto& o) { o.batch = 0; }), HasSubstr("batch=0"));
  EXPECT_THAT(said([](auto& o) { o.microbatches = 0; }), HasSubstr("microbatches=0"));
  EXPECT_THAT(said([](auto& o) { o.sequence = -1; }), HasSubstr("sequence=-1"));
  EXPECT_THAT(said([](auto& o) { o.sequence = 13; }),
              HasSubstr("a sequence of 13 tokens does not fit the model's 12 positions"));
  for (const std::vector<int>& split :
       std::vector<std::vector<int>>{{4}, {2, 1}, {4, 0}, {5, -1}, {1, 1, 2}, {3, 3}}) {
    EXPECT_THAT(said([&](auto& o) { o.layers_per_stage = split; }),
                AllOf(HasSubstr("the model has 4 layers on 2 stages"), HasSubstr("each layer once")))
        << testing::PrintToString(split);
  }
}

class BadBatch : public testing::Test {
 protected:
  void SetUp() override {
    trainer_ = make_trainer(layout, shape, options_for(batch(), 2));
    before_ = trainer_->weights();
  }

  // What is said of a batch that a step or an evaluation refuses; afterwards the trainer goes on.
  template <class Change>
  std::string refusal_of_step(Change&& change) {
    Batch bad = batch();
    change(bad);
    const std::string said = error_of([&] { trainer_->step(bad); });
    EXPECT_EQ(error_of([&] { trainer_->gradients(bad); }), said);
    return said;
  }

  void TearDown() override {
    EXPECT_EQ(trainer_->steps_done(), 0);
    expect_same_bits(trainer_->weights(), before_);
    EXPECT_EQ(trainer_->step(batch()).step, 1);
  }

  std::unique_ptr<AnyTrainer> trainer_;
  WholeTensors before_;
};

TEST_F(BadBatch, OfAnotherSizeIsRefused) {
  EXPECT_THAT(refusal_of_step([](Batch& b) { b = reference::random_batch(shape, 4, 11, 1); }),
              AllOf(HasSubstr("a batch of 4 sequences"), HasSubstr("give 8")));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b = reference::random_batch(shape, 8, 10, 1); }),
              AllOf(HasSubstr("8 sequences of 10 tokens"), HasSubstr("sequences of 11 tokens")));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b.tokens.pop_back(); }),
              HasSubstr("with 87 tokens and 88 targets"));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b.targets.push_back(0); }),
              HasSubstr("with 88 tokens and 89 targets"));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b = {}; }), HasSubstr("a batch of 0 sequences"));
  EXPECT_THAT(error_of([&] { trainer_->evaluate({reference::random_batch(shape, 6, 11, 1)}); }),
              AllOf(HasSubstr("a batch of 6 sequences"), HasSubstr("a multiple of 4")));
  EXPECT_EQ(trainer_->evaluation_batch(), 4);
  const Batch uncountable{.sequences = Index{1} << 62, .length = 11};
  EXPECT_THAT(error_of([&] { trainer_->evaluate({uncountable}); }),
              HasSubstr("4611686018427387904 sequences of 11 tokens, with 0 tokens"));
}

TEST_F(BadBatch, WithATokenOutsideTheVocabularyIsRefused) {
  EXPECT_THAT(refusal_of_step([](Batch& b) { b.tokens[17] = 37; }),
              HasSubstr("token 37 at place 17 of the batch is outside the vocabulary of 37"));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b.tokens[87] = -1; }), HasSubstr("token -1 at place 87"));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b.targets[3] = 1000; }), HasSubstr("token 1000 at place 3"));
  EXPECT_THAT(refusal_of_step([](Batch& b) { b.targets[4] = -2; }), HasSubstr("token -2 at place 4"));
  Batch bad = batch();
  bad.tokens[0] = std::numeric_limits<std::int32_t>::max();
  EXPECT_THAT(error_of([&] { trainer_->evaluate({bad}); }), HasSubstr("outside the vocabulary of 37"));
}

TEST_F(BadBatch, PromptsAreRefused) {
  EXPECT_THAT(error_of([&] { trainer_->next_token_logits({}); }), HasSubstr("asked to continue 0 tokens"));
  EXPECT_THAT(error_of([&] { trainer_->next_token_logits(std::vector<std::int32_t>(12, 1)); }),
              AllOf(HasSubstr("asked to continue 12 tokens"), HasSubstr("give 1 to 11")));
  EXPECT_THAT(error_of([&] { trainer_->next_token_logits({3, 37}); }), HasSubstr("token 37 at place 1"));
}

// What only the ranks can see stops all of them, and soon.
class StoppedStep : public testing::Test {
 protected:
  static constexpr auto seconds = std::chrono::seconds(10);

  // What is said of a step that is given up; it leaves the weights as they were.
  std::string stop(AnyTrainer& trainer, const Batch& batch) {
    const WholeTensors before = trainer.weights();
    const auto start = std::chrono::steady_clock::now();
    const std::string said = error_of([&] { trainer.step(batch); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds);
    expect_same_bits(trainer.weights(), before);
    return said;
  }
};

TEST_F(StoppedStep, AnEvaluationThatIsNotANumber) {
  const auto trainer = make_trainer(layout, shape, options_for(batch(), 2));
  for (const Parameter<float>& p : trainer->parameters(0)) {
    if (p.spec.name.ends_with("mlp.c_fc.weight")) p.value(3) = std::nanf("");
  }
  EXPECT_THAT(error_of([&] { trainer->evaluate({batch()}); }), HasSubstr("the loss of the evaluation is"));
}

TEST(Options, AreFiniteNumbersInTheirRange) {
  const double nan = std::nan("");
  const auto said = [](auto change) {
    TrainerOptions options;
    change(options);
    return error_of([&] { check(options); });
  };
  EXPECT_EQ(said([](TrainerOptions&) {}), "");
  EXPECT_THAT(said([&](TrainerOptions& o) { o.learning_rate.peak = nan; }), HasSubstr("the learning rate"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.clip = -1; }), HasSubstr("clip"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.loss_scaling.initial = 1000; }), HasSubstr("powers of two"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.loss_scaling.least = 0; }), HasSubstr("powers of two"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.loss_scaling.window = 0; }), HasSubstr("a window of 0"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.bucket = 0; }), HasSubstr("a gradient bucket of 0"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.threads_per_rank = 100000; }), HasSubstr("100000 threads"));
  EXPECT_THAT(said([](TrainerOptions& o) { o.batch = Index{1} << 61; }), HasSubstr("neither may be above"));
}

TEST_F(StoppedStep, ABatchWithoutAValidToken) {
  const auto trainer = make_trainer(layout, shape, options_for(batch(), 2));
  Batch bad = batch();
  bad.targets.assign(bad.targets.size(), ignored_target);
  EXPECT_THAT(stop(*trainer, bad), HasSubstr("the batch has no valid token"));
  EXPECT_EQ(trainer->step(batch()).step, 1);
}

TEST_F(StoppedStep, EvaluationWithoutAValidToken) {
  const auto trainer = make_trainer(layout, shape, options_for(batch(), 2));
  Batch bad = batch();
  bad.targets.assign(bad.targets.size(), ignored_target);
  EXPECT_THAT(error_of([&] { trainer->evaluate({bad}); }), HasSubstr("no valid token to evaluate on"));
  EXPECT_THAT(error_of([&] { trainer->evaluate({}); }), HasSubstr("no valid token to evaluate on"));
}

TEST_F(StoppedStep, ALossThatIsNotFiniteNamesTheStep) {
  for (const Layout& layout : {Layout{1, 1, 1}, Layout{2, 2, 2}, Layout{1, 4, 2, Policy::gpipe}}) {
    SCOPED_TRACE(testing::Message() << layout);
    TrainerOptions options = options_for(batch(), 2);
    options.learning_rate.peak = 1e30;
    options.clip = 0;
    const auto trainer = make_trainer(layout, shape, options);
    EXPECT_EQ(trainer->step(batch()).step, 1);
    EXPECT_THAT(stop(*trainer, batch()), AllOf(HasSubstr("step 2"), HasSubstr("lower the learning rate")));
    EXPECT_EQ(trainer->steps_done(), 1);
  }
}

// On any rank, in any tensor: a gradient of NaN reaches the norm even where the loss does not see it.
TEST_F(StoppedStep, ANanInOneWeightOfOneRank) {
  for (int rank = 0; rank < layout.shape().world(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const auto trainer = make_trainer(layout, shape, options_for(batch(), 2));
    trainer->step(batch());
    const auto place =
        std::find_if(trainer->parameters(rank).begin(), trainer->parameters(rank).end(),
                     [](const Parameter<float>& p) { return p.spec.name.ends_with("mlp.c_fc.weight"); });
    const float sound = std::exchange(place->value(3), std::nanf(""));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(error_of([&] { trainer->step(batch()); }), AllOf(HasSubstr("step 2"), HasSubstr("nan")));
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds);
    place->value(3) = sound;
    EXPECT_EQ(trainer->step(batch()).step, 2);
  }
}

}  // namespace
}  // namespace trilith::test
