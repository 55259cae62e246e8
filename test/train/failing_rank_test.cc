// A rank that throws in the middle of a step, at every operation it takes part in: all ranks end within
// seconds, with the error of the rank that failed, and nothing is used after it is gone.
//
// This small file also runs under each sanitizer, and so does the step before the failure.

#include <chrono>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/trilith.hpp>

#include "test/reference/random.hpp"
#include "test/support/files.hpp"
#include "test/support/observed_world.hpp"

namespace trilith {
namespace {

using test::FusedWorld;
using testing::AllOf;
using testing::HasSubstr;

constexpr GptShape shape{.layers = 4, .hidden = 12, .heads = 2, .positions = 6, .vocabulary = 19};

using FusedTrainer = Trainer<Gpt, Config<Parallelism<2, 2, 2>>, FusedWorld>;

TrainerOptions options() {
  TrainerOptions options;
  options.batch = 6;
  options.sequence = 5;
  options.microbatches = 3;
  options.threads_per_rank = 1;
  options.bucket = 1000;  // some begin in one layer and end in the next
  options.poison = true;
  return options;
}

Batch batch(std::uint64_t seed) {
  return reference::random_batch(shape, 6, 5, seed);
}

TEST(SoundRanks, StepEvaluateGenerateAndSave) {
  FusedWorld world(8);
  FusedTrainer trainer(shape, world, options());
  const double before = trainer.evaluate({batch(1)});
  for (int step = 1; step <= 20; ++step) EXPECT_EQ(trainer.step(batch(1)).step, step);
  EXPECT_LT(trainer.evaluate({batch(1)}), before);
  EXPECT_EQ(trainer.next_token_logits({1, 2, 3}).size(), 19u);
  const test::TempFolder folder;
  trainer.save(folder / "model.safetensors");
  EXPECT_EQ(folder.names().size(), 1u);
}

// Rank 1 is the second tensor rank of the first stage, rank 6 the second data rank of the last.
class FailingRank : public testing::TestWithParam<int> {};

TEST_P(FailingRank, StopsAllOthersWhereverItFails) {
  const int failing = GetParam();
  std::int64_t operations = 0;
  {
    FusedWorld world(8);
    FusedTrainer trainer(shape, world, options());
    trainer.step(batch(1));
    const std::int64_t before = world.rank(failing).observed.operations;
    trainer.step(batch(1));
    operations = world.rank(failing).observed.operations - before;
  }
  EXPECT_GT(operations, 20);
  for (std::int64_t at = 0; at < operations; ++at) {
    SCOPED_TRACE("operation " + std::to_string(at));
    FusedWorld world(8);
    FusedTrainer trainer(shape, world, options());
    trainer.step(batch(1));
    auto& observed = world.rank(failing).observed;
    observed.observer.blows_at = observed.operations + at;
    const auto start = std::chrono::steady_clock::now();
    const std::string said = test::error_of([&] { trainer.step(batch(2)); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_THAT(said, AllOf(HasSubstr("rank " + std::to_string(failing)), HasSubstr("a fuse blew")));
    EXPECT_EQ(trainer.steps_done(), 1);
    EXPECT_THAT(test::error_of([&] { trainer.step(batch(2)); }),
                HasSubstr("this world has failed: rank " + std::to_string(failing) + " failed: a fuse blew"));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FailingRank, testing::Values(1, 6));

}  // namespace
}  // namespace trilith
