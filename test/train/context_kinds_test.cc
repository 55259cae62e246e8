// Law 3 with every other kind of attention over context ranks.
#include <gmock/gmock.h>

#include "test/support/files.hpp"
#include "test/train/context_steps.hpp"

namespace trilith::test {
namespace {

using testing::HasSubstr;

TEST(ContextRanks, OfAContiguousRingTakeTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<1, 1, 1, 3>, Attention<Ring>>>(18);
}

TEST(ContextRanks, OfAStripedRingTakeTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<1, 1, 2, 4>, Attention<Ring, Striped>>>(16);
}

TEST(ContextRanks, ThatGatherTakeTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<1, 2, 1, 2>, Attention<AllGatherKv, Zigzag>>>(16);
}

TEST(ContextRanks, ThatExchangeHeadsTakeTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<2, 1, 1, 4>, Attention<Ulysses>>>(16);
}

TEST(ContextRanks, ThatExchangeHeadsInARingTakeTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<1, 1, 1, 4>, Attention<Hybrid<2>, Zigzag>>>(16);
  expect_the_steps_of_one_rank<Config<Parallelism<1, 1, 1, 4>, Attention<Hybrid<2>, Zigzag>>>(13,
                                                                                              Padding::yes);
}

TEST(ContextRanks, RefuseWhatCannotBeSplit) {
  const auto said = []<class Config>(Index length, GptShape shape, Config) {
    const Batch batch = reference::random_batch(shape, 8, length, 2);
    constexpr int ranks = Config::template policy<ParallelismCategory>::shape.world();
    return error_of([&] { ConcreteTrainer<Config>(shape, options_for(batch, 2), ranks); });
  };
  EXPECT_THAT(said(15, context_shape, Config<Parallelism<1, 1, 1, 3>, Attention<Ring>>()), "");
  EXPECT_THAT(said(16, context_shape, Config<Parallelism<1, 1, 1, 3>, Attention<Ring>>()),
              HasSubstr("sequence length must be divisible by CP"));
  GptShape three_heads = context_shape;
  three_heads.hidden = 36;
  three_heads.heads = 6;
  EXPECT_THAT(said(16, three_heads, Config<Parallelism<2, 1, 1, 4>, Attention<Ulysses>>()),
              HasSubstr("cannot exchange heads for rows among 4 ranks"));
}

}  // namespace
}  // namespace trilith::test
