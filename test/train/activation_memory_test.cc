// What a rank allocates for activations as a step has more microbatches of one size, as its allocator counts.

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/trilith.hpp>

#include "test/reference/random.hpp"

namespace trilith {
namespace {

constexpr GptShape shape{.layers = 8, .hidden = 64, .heads = 4, .positions = 64, .vocabulary = 37};
constexpr int ranks = 4;
constexpr Index length = 64;        // tokens of a sequence; a microbatch is one
constexpr std::size_t page = 4096;  // what the allocator rounds up to

// Of each pipeline rank, after a step.
template <class Policy>
std::vector<MemoryReport> memory(int microbatches) {
  ThreadWorld world(ranks);
  Trainer<Gpt, Config<Parallelism<1, ranks, 1>, Schedule<Policy>>> trainer(
      shape, world,
      {.batch = microbatches, .sequence = length, .microbatches = microbatches, .threads_per_rank = 1});
  trainer.step(reference::random_batch(shape, microbatches, length, 1));
  std::vector<MemoryReport> reports;
  for (int rank = 0; rank < ranks; ++rank) reports.push_back(trainer.rank(rank).memory());
  return reports;
}

TEST(ActivationMemory, OfOneFOneBDoesNotGrowWithTheMicrobatches) {
  const std::vector<MemoryReport> least = memory<OneFOneB>(ranks);
  for (int m = ranks + 1; m <= 4 * ranks; ++m) {
    const std::vector<MemoryReport> more = memory<OneFOneB>(m);
    for (int rank = 0; rank < ranks; ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank) + ", " + std::to_string(m) + " microbatches");
      EXPECT_EQ(more[rank].activations, least[rank].activations);
      // Nothing else grows either but the batch itself: its tokens, targets and losses, a few pages.
      EXPECT_LE(more[rank].peak, least[rank].peak + 4 * page);
    }
  }
}

TEST(ActivationMemory, OfGPipeGrowsLinearlyWithTheMicrobatches) {
  const std::vector<MemoryReport> least = memory<GPipe>(ranks);
  const std::vector<MemoryReport> most = memory<GPipe>(4 * ranks);
  for (int m = ranks; m <= 4 * ranks; ++m) {
    const std::vector<MemoryReport> reports = memory<GPipe>(m);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t grown = most[rank].activations - least[rank].activations;
      EXPECT_GT(grown, most[rank].activations / 2) << "rank " << rank;
      const std::size_t expected = least[rank].activations + (m - ranks) * grown / (3 * ranks);
      EXPECT_NEAR(static_cast<double>(reports[rank].activations), static_cast<double>(expected), 2 * page)
          << "rank " << rank << ", " << m << " microbatches";
    }
  }
}

// A rank holds as much as its program says, whatever the schedule is called. An input that arrives early
// costs 1F1B one tensor of a boundary, (sequence, hidden).
TEST(ActivationMemory, OfOneFOneBIsThatOfGPipeWithAsManyMicrobatchesAsItHolds) {
  const std::vector<MemoryReport> one_f_one_b = memory<OneFOneB>(4 * ranks);
  constexpr std::size_t boundary = static_cast<std::size_t>(length) * shape.hidden * sizeof(float);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::size_t as_many = memory<GPipe>(ranks - rank)[rank].activations;
    EXPECT_GE(one_f_one_b[rank].activations, as_many) << "rank " << rank;
    EXPECT_LE(one_f_one_b[rank].activations, as_many + boundary) << "rank " << rank;
  }
}

}  // namespace
}  // namespace trilith
