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

}  // namespace
}  // namespace trilith::test
