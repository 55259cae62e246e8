// A schedule that a user has written trains to the same bits as one rank: with the backward in two parts, and
// with several stages on a rank, wherever these put the two uses of the tied table.

#include <gtest/gtest.h>

#include <trilith/trilith.hpp>

#include "test/schedule/user_policies.hpp"
#include "test/train/training.hpp"

namespace trilith {
namespace {

constexpr GptShape shape{.layers = 5, .hidden = 24, .heads = 3, .positions = 16, .vocabulary = 37};

template <class Schedule, int PP, int DP>
test::Training train(int microbatches) {
  return test::train<Config<Parallelism<1, PP, DP>, Schedule>>(shape, 24, microbatches);
}

template <class Policy>
class UserSchedules : public testing::Test {};

using Policies =
    testing::Types<test::EagerOneFOneB, test::SplitOneFOneB, test::TwoChunks<test::InterleavedPlacement>,
                   test::TwoChunks<test::VPlacement>>;
TYPED_TEST_SUITE(UserSchedules, Policies);

TYPED_TEST(UserSchedules, TrainToTheBitsOfOneRank) {
  for (const int microbatches : {2, 4, 6}) {
    const test::Training expected = train<Schedule<OneFOneB>, 1, 1>(microbatches);
    EXPECT_EQ((train<Schedule<TypeParam>, 2, 1>(microbatches)), expected) << microbatches << " microbatches";
  }
}

// Here gradient buckets lie around the table, not only behind it.
TYPED_TEST(UserSchedules, ReduceOverDataRanksWhatOnePipelineRankReduces) {
  const test::Training expected = train<Schedule<OneFOneB>, 1, 2>(2);
  EXPECT_EQ((train<Schedule<TypeParam>, 2, 2>(2)), expected);
}

}  // namespace
}  // namespace trilith
