// A schedule that a user has written trains to the same bits as one rank: with the backward in two parts, and
// with several stages on a rank, wherever these put the two uses of the tied table.

#include <vector>

#include <gtest/gtest.h>

#include <trilith/trilith.hpp>

#include "test/reference/random.hpp"
#include "test/schedule/user_policies.hpp"
#include "test/support/gather.hpp"

namespace trilith {
namespace {

constexpr GptShape shape{.layers = 5, .hidden = 24, .heads = 3, .positions = 16, .vocabulary = 37};
constexpr int steps = 3;

struct Training {
  std::vector<double> losses;
  std::vector<double> norms;
  test::WholeTensors weights;
  friend bool operator==(const Training&, const Training&) = default;
};

template <class Schedule, int PP, int DP>
Training train(int microbatches) {
  using T = Trainer<Gpt, Config<Parallelism<1, PP, DP>, Schedule>>;
  ThreadWorld world(T::parallel.world());
  T trainer(shape, world,
            {.batch = 24, .sequence = 11, .microbatches = microbatches, .threads_per_rank = 1, .poison = true});
  Training result;
  for (int step = 0; step < steps; ++step) {
    const StepReport report = trainer.step(reference::random_batch(shape, 24, 11, 5 + step));
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradient_norm);
  }
  std::vector<const Parameters<Host>*> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(&trainer.rank(rank).parameters());
  result.weights = test::gather(gpt2_tensors(shape), ranks, &Parameter::value);
  return result;
}

template <class Policy>
class UserSchedules : public testing::Test {};

using Policies = testing::Types<test::EagerOneFOneB, test::SplitOneFOneB,
                                test::TwoChunks<test::InterleavedPlacement>,
                                test::TwoChunks<test::VPlacement>>;
TYPED_TEST_SUITE(UserSchedules, Policies);

TYPED_TEST(UserSchedules, TrainToTheBitsOfOneRank) {
  for (const int microbatches : {2, 4, 6}) {
    const Training expected = train<Schedule<OneFOneB>, 1, 1>(microbatches);
    EXPECT_EQ((train<Schedule<TypeParam>, 2, 1>(microbatches)), expected) << microbatches << " microbatches";
  }
}

// Here gradient buckets lie around the table, not only behind it.
TYPED_TEST(UserSchedules, ReduceOverDataRanksWhatOnePipelineRankReduces) {
  const Training expected = train<Schedule<OneFOneB>, 1, 2>(2);
  EXPECT_EQ((train<Schedule<TypeParam>, 2, 2>(2)), expected);
}

}  // namespace
}  // namespace trilith
