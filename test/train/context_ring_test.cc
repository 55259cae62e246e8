// Law 3 with ring attention at every combination of axes.
#include "test/train/context_steps.hpp"

namespace trilith::test {
namespace {

using Zigzagged = Attention<Ring, Zigzag>;

TEST(ContextRing, OfTwoWithTensorPipelineAndDataRanksTakesTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<2, 2, 2, 2>, Zigzagged>>(16);
}

TEST(ContextRing, OfFourWithTensorPipelineAndDataRanksTakesTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<2, 2, 2, 4>, Zigzagged>>(16);
}

TEST(ContextRing, OfOneWithTensorPipelineAndDataRanksTakesTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<2, 2, 2, 1>, Zigzagged>>(16);
}

TEST(ContextRing, PadsSequencesThatDoNotDivideWhereAsked) {
  for (const Index length : {11, 17, 1}) {
    expect_the_steps_of_one_rank<Config<Parallelism<2, 2, 2, 2>, Zigzagged>>(length, Padding::yes);
  }
}

// Nothing is scaled by the number of context ranks, or by that of tensor and context ranks. (TP is that of
// the tests above, whose layers are compiled already.)
TEST(ContextRing, OfFourWithTwoDataRanksGivesTheGradientsOfEightDataRanks) {
  const reference::Weights weights = random_weights_of(context_shape);
  const Batch batch = reference::random_batch(context_shape, 8, 16, 2);
  ConcreteTrainer<Config<Parallelism<2, 1, 2, 4>, Zigzagged>> context(context_shape, options_for(batch, 1),
                                                                      16);
  ConcreteTrainer<Config<Parallelism<2, 1, 8, 1>, Zigzagged>> data(context_shape, options_for(batch, 1), 16);
  context.load(weights);
  data.load(weights);
  const StepReport split = context.gradients(batch), whole = data.gradients(batch);
  EXPECT_NEAR(split.loss, whole.loss, 1e-5 * whole.loss);
  EXPECT_NEAR(split.gradient_norm, whole.gradient_norm, 1e-5 * whole.gradient_norm);
  expect_close(context.gradient_tensors(), data.gradient_tensors(), 1e-5);
}

// One rank with 1 valid token, another with 7: a sum over all of them, divided once by 8.
TEST(ContextRing, DividesOnceByTheValidTokensOfAllRanks) {
  const reference::Weights weights = random_weights_of(context_shape);
  Batch batch = reference::random_batch(context_shape, 1, 16, 2);
  for (std::size_t position = 0; position < 16; ++position) {
    const bool of_first_rank = position < 4 || position >= 12;  // as a zigzag over two ranks has it
    const bool valid = of_first_rank ? position == 2 : position < 11;
    batch.targets[position] = valid ? static_cast<std::int32_t>(position) : ignored_target;
  }
  const auto one = make_trainer({}, context_shape, options_for(batch, 1));
  ConcreteTrainer<Config<Parallelism<2, 1, 1, 2>, Zigzagged>> two(context_shape, options_for(batch, 1), 4);
  one->load(weights);
  two.load(weights);
  const StepReport whole = one->gradients(batch), split = two.gradients(batch);
  EXPECT_EQ(split.valid_tokens, 8);
  EXPECT_NEAR(split.loss, whole.loss, 1e-5 * whole.loss);
  expect_close(two.gradient_tensors(), one->gradient_tensors(), 1e-5);
}

}  // namespace
}  // namespace trilith::test
