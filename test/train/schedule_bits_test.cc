// Law 2 for the schedules that hold several stages on a rank or split the backward: at fixed TP and DP they
// train to the bits of one pipeline rank. schedules_test.cc has 1F1B and GPipe, in more layouts.

#include <map>
#include <string>

#include <gtest/gtest.h>

#include <trilith/trilith.hpp>

#include "test/train/training.hpp"

namespace trilith {
namespace {

// As many layers as the most stages, 3 chunks of 4 ranks, and one more.
constexpr GptShape shape{.layers = 13, .hidden = 8, .heads = 2, .positions = 12, .vocabulary = 37};

// 1F1B on one pipeline rank; with DP > 1 its gradients have been reduced as those of every other.
template <int TP, int DP>
const test::Training& expected(int microbatches) {
  static std::map<int, test::Training> known;
  const auto [found, is_new] = known.try_emplace(microbatches);
  if (is_new) {
    found->second = test::train<Config<Parallelism<TP, 1, DP>>>(shape, microbatches * DP, microbatches);
  }
  return found->second;
}

template <class Policy, int TP, int PP, int DP>
void expect_the_bits_of_one_pipeline_rank() {
  using Layout = Config<Parallelism<TP, PP, DP>, Schedule<Policy>>;
  int sizes = 0;
  for (int m = 1; m <= 8; ++m) {
    if (schedule::refusal<Policy>(PP, m) != nullptr) continue;
    ++sizes;
    EXPECT_EQ((test::train<Layout>(shape, m * DP, m)), (expected<TP, DP>(m)))
        << "TP=" << TP << " PP=" << PP << " DP=" << DP << ", " << m << " microbatches";
  }
  EXPECT_GT(sizes, 0);
}

template <class Policy>
class ScheduleBits : public testing::Test {};
using Policies =
    testing::Types<Interleaved<2>, Interleaved<3>, ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, DualPipeV>;
TYPED_TEST_SUITE(ScheduleBits, Policies);

TYPED_TEST(ScheduleBits, AreThoseOfOnePipelineRank) {
  expect_the_bits_of_one_pipeline_rank<TypeParam, 1, 2, 1>();
  expect_the_bits_of_one_pipeline_rank<TypeParam, 1, 4, 1>();
}

TYPED_TEST(ScheduleBits, AreThoseOfOnePipelineRankWithDataRanks) {
  expect_the_bits_of_one_pipeline_rank<TypeParam, 1, 2, 2>();
  expect_the_bits_of_one_pipeline_rank<TypeParam, 1, 4, 2>();
}

TYPED_TEST(ScheduleBits, AreThoseOfOnePipelineRankWithTensorRanks) {
  expect_the_bits_of_one_pipeline_rank<TypeParam, 2, 2, 1>();
  expect_the_bits_of_one_pipeline_rank<TypeParam, 2, 4, 1>();
}

TYPED_TEST(ScheduleBits, AreThoseOfOnePipelineRankWithTensorAndDataRanks) {
  expect_the_bits_of_one_pipeline_rank<TypeParam, 2, 2, 2>();
}

// The last weight parts come long after the last input part: a bucket must wait for them.
TEST(ZeroBubble, WithTwoDataRanksTrainsAsOneFOneBDoes) {
  const auto train = []<class Policy>() {
    return test::train<Config<Parallelism<1, 2, 2>, Schedule<Policy>>>(shape, 12, 6);
  };
  const test::Training one_f_one_b = train.operator()<OneFOneB>();
  EXPECT_EQ(train.operator()<ZeroBubbleH1>(), one_f_one_b);
  EXPECT_EQ(train.operator()<ZeroBubbleH2>(), one_f_one_b);
  EXPECT_EQ(train.operator()<ZeroBubbleV>(), one_f_one_b);
}

TEST(MicrobatchesInTheLayout, ChangeNoBit) {
  using Proved = Config<Parallelism<1, 2, 1>, Schedule<ZeroBubbleV>, Microbatches<4>>;
  EXPECT_EQ((test::train<Proved>(shape, 4, 4)), (expected<1, 1>(4)));
  // They are known to the trainer where its options leave them out.
  EXPECT_EQ((test::train<Proved>(shape, 4, TrainerOptions{}.microbatches)), (expected<1, 1>(4)));
}

TEST(MicrobatchesInTheLayout, MustNotDifferFromThoseOfTheOptions) {
  try {
    test::train<Config<Parallelism<1, 2, 1>, Microbatches<4>>>(shape, 6, 6);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the layout has Microbatches<4>, the options say 6 microbatches; leave microbatches out "
                 "of the options");
  }
}

}  // namespace
}  // namespace trilith
