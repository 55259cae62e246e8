// A rank that throws in the middle of a step, at every operation it takes part in: all ranks end within
// seconds, with the error of the rank that failed, and nothing is used after it is gone.
//
// This small file also runs under each sanitizer, and so does the step before the failure.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/trilith.hpp>

#include "test/reference/random.hpp"
#include "test/support/files.hpp"

namespace trilith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Throws when it has counted down to zero; below zero it is out of order.
struct Fuse {
  std::int64_t left = -1;
  std::int64_t used = 0;

  void burn() {
    ++used;
    if (left >= 0 && left-- == 0) throw std::runtime_error("a fuse blew");
  }
};

// A thread communicator whose operations burn the rank's fuse.
class FusedCommunicator {
 public:
  using stream = ThreadCommunicator::stream;
  using handle = ThreadCommunicator::handle;

  FusedCommunicator(ThreadCommunicator group, Fuse& fuse) : group_(std::move(group)), fuse_(&fuse) {}

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const std::vector<int>& members() const { return group_.members(); }

  template <class T>
  handle all_reduce(const stream& s, Vector<T> buffer, Reduction reduction = Reduction::sum) {
    fuse_->burn();
    return group_.all_reduce(s, buffer, reduction);
  }
  template <class T>
  handle reduce_scatter(const stream& s, Vector<const T> input, Vector<T> output) {
    fuse_->burn();
    return group_.reduce_scatter(s, input, output);
  }
  template <class T>
  handle all_gather(const stream& s, Vector<const T> input, Vector<T> output) {
    fuse_->burn();
    return group_.all_gather(s, input, output);
  }
  template <class T>
  handle broadcast(const stream& s, Vector<T> buffer, int root) {
    fuse_->burn();
    return group_.broadcast(s, buffer, root);
  }
  template <class T>
  handle ring_shift(const stream& s, Vector<const T> input, Vector<T> output) {
    fuse_->burn();
    return group_.ring_shift(s, input, output);
  }
  handle exchange(const stream& s, std::span<const Message> messages) {
    fuse_->burn();
    return group_.exchange(s, messages);
  }
  handle barrier(const stream& s) {
    fuse_->burn();
    return group_.barrier(s);
  }

 private:
  ThreadCommunicator group_;
  Fuse* fuse_;
};

class FusedRank {
 public:
  using communicator = FusedCommunicator;

  explicit FusedRank(ThreadRank& rank) : rank_(&rank) {}

  int rank() const { return rank_->rank(); }
  int size() const { return rank_->size(); }
  communicator group(const std::string& name, const std::vector<int>& members) {
    return {rank_->group(name, members), fuse};
  }

  Fuse fuse;

 private:
  ThreadRank* rank_;
};

class FusedWorld {
 public:
  using rank_type = FusedRank;
  using communicator = FusedCommunicator;

  explicit FusedWorld(int ranks) : world_(ranks) {
    for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<FusedRank>(world_.rank(r)));
  }

  int size() const { return world_.size(); }
  FusedRank& rank(int index) { return *ranks_[index]; }
  void run(const std::function<void(FusedRank&)>& task) {
    world_.run([&](ThreadRank& rank) { task(*ranks_[rank.rank()]); });
  }

 private:
  ThreadWorld world_;
  std::vector<std::unique_ptr<FusedRank>> ranks_;
};

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
    const std::int64_t before = world.rank(failing).fuse.used;
    trainer.step(batch(1));
    operations = world.rank(failing).fuse.used - before;
  }
  EXPECT_GT(operations, 20);
  for (std::int64_t at = 0; at < operations; ++at) {
    SCOPED_TRACE("operation " + std::to_string(at));
    FusedWorld world(8);
    FusedTrainer trainer(shape, world, options());
    trainer.step(batch(1));
    world.rank(failing).fuse.left = at;
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
