// Law 3 for the Llama family with other kinds of attention over context ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/nn/llama.hpp>

#include "test/support/files.hpp"
#include "test/train/context_steps.hpp"

namespace trilith::test {
namespace {

TEST(LlamaContextRanks, OfAStripedRingTakeTheStepsOfOneRank) {
  expect_the_steps_of_one_rank<Config<Parallelism<1, 1, 2, 2>, Attention<Ring, Striped>>, Llama>(
      16, Padding::no, context_llama);
}

TEST(LlamaContextRanks, ThatExchangeHeadsTakeTheStepsOfOneRank) {
  using Exchanging = Config<Parallelism<2, 1, 1, 2>, Attention<Ulysses>>;
  expect_the_steps_of_one_rank<Exchanging, Llama>(16, Padding::no, context_llama);
  expect_the_steps_of_one_rank<Exchanging, Llama>(11, Padding::yes, context_llama);
}

TEST(LlamaContextRanks, CannotExchangeFewerKeyValueHeadsThanThereAreRanks) {
  using Exchanging = Config<Parallelism<2, 1, 1, 2>, Attention<Ulysses>>;
  LlamaShape shape = context_llama;
  shape.kv_heads = 2;  // one a tensor rank
  const Batch batch = reference::random_batch(shape, 8, 16, 2);
  EXPECT_THAT(
      error_of([&] { ConcreteTrainer<Exchanging, Llama>(shape, options_for(batch, 2), 4); }),
      testing::HasSubstr("6 heads with 1 key/value heads of dimension 6 cannot exchange heads for rows "
                         "among 2 ranks"));
}

}  // namespace
}  // namespace trilith::test
