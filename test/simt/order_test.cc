// The order of lanes and blocks, and when copies land.

#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"
#include "test/simt/overtaken.hpp"

namespace trilith::test {
namespace {

// A sum whose rounding shows the order of its terms.
struct Sum {
  static constexpr const char* name = "sum";
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<float> sum;  // (1)
  };

  template <simt::lane Lane>
  void operator()(Lane& lane, const Params& p) const {
    lane.atomic_add(p.sum, 0, 1.0f / static_cast<float>(1 + lane.block().x * threads + lane.thread()));
  }
};

float sum(std::uint64_t seed) {
  Buffer<float> sum(1, 0.0f);
  simt::Emulator emulator({.seed = seed});
  emulator.launch(Sum{}, {.x = 8}, {sum.view()});
  return sum[0];
}

TEST(Order, IsNaturalWithoutASeed) {
  float expected = 0;
  for (int i = 0; i < 8 * 64; ++i) expected += 1.0f / static_cast<float>(1 + i);
  EXPECT_EQ(sum(0), expected);
}

TEST(Order, RepeatsForASeed) {
  std::set<float> sums;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    EXPECT_EQ(sum(seed), sum(seed));
    sums.insert(sum(seed));
  }
  EXPECT_GT(sums.size(), 3u) << "seeds must make a difference";
}

// Which block, and within it which thread, came when. Blocks are whole: one after the other.
struct Arrivals {
  static constexpr const char* name = "arrivals";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct Params {
    std::vector<int>* list;
  };

  template <simt::lane Lane>
  void operator()(Lane& lane, const Params& p) const {
    p.list->push_back(lane.block().x * threads + lane.thread());
    lane.barrier();
    p.list->push_back(lane.block().x * threads + lane.thread());
  }
};

std::vector<int> arrivals(std::uint64_t seed, int blocks) {
  std::vector<int> list;
  simt::Emulator emulator({.seed = seed});
  emulator.launch(Arrivals{}, {.x = blocks}, {&list});
  return list;
}

TEST(Order, EveryLaneOfEveryBlockRunsOnce) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    const std::vector<int> list = arrivals(seed, 5);
    ASSERT_EQ(list.size(), 2u * 5 * 32);
    std::set<int> blocks;
    for (int b = 0; b < 5; ++b) {
      const auto first = list.begin() + b * 64;
      EXPECT_EQ(std::set<int>(first, first + 32).size(), 32u) << "all come to the barrier first";
      EXPECT_EQ(std::set<int>(first, first + 32), std::set<int>(first + 32, first + 64));
      blocks.insert(*first / 32);
    }
    EXPECT_EQ(blocks.size(), 5u);
  }
}

TEST(Order, SeedsShuffleLanesAndBlocks) {
  std::set<std::vector<int>> lanes;
  std::set<std::vector<int>> lanes_after_the_barrier;
  std::set<std::vector<int>> blocks;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<int> block = arrivals(seed, 1);
    lanes.insert({block.begin(), block.begin() + 32});
    lanes_after_the_barrier.insert({block.begin() + 32, block.end()});
    const std::vector<int> list = arrivals(seed, 8);
    std::vector<int> order;
    for (int b = 0; b < 8; ++b) order.push_back(list[64 * b] / 32);
    blocks.insert(order);
  }
  EXPECT_EQ(lanes.size(), 8u);
  EXPECT_EQ(lanes_after_the_barrier.size(), 8u);
  EXPECT_GT(blocks.size(), 6u);
}

TEST(Landing, IsAtOnceOrAtTheWait) {
  Buffer<float> x(128, 1.0f);
  simt::Emulator at_once({.landing = simt::Landing::at_once});
  at_once.launch(Overtaken{}, {}, {x.view()});
  EXPECT_EQ(x[0], 1.0f);
  simt::Emulator late({.landing = simt::Landing::late});
  late.launch(Overtaken{}, {}, {x.view()});
  EXPECT_EQ(x[0], 2.0f);
}

// With 32 blocks one landing alone has a chance of 2^-31.
TEST(Landing, IsEitherBlockByBlockAndRepeats) {
  const auto landings = [](std::uint64_t seed) {
    Buffer<float> x(32 * 128, 1.0f);
    simt::Emulator emulator({.seed = seed, .landing = simt::Landing::either});
    emulator.launch(Overtaken{}, {.x = 32}, {x.view()});
    std::vector<float> of_blocks;
    for (Index block = 0; block < 32; ++block) of_blocks.push_back(x[128 * block]);
    return of_blocks;
  };
  for (const std::uint64_t seed : {0, 1, 2}) {
    const std::vector<float> all = landings(seed);
    EXPECT_EQ(std::set(all.begin(), all.end()), (std::set<float>{1, 2}));
    EXPECT_EQ(landings(seed), all);
  }
}

TEST(Launch, RefusesAnEmptyGrid) {
  Buffer<float> x(1);
  simt::Emulator emulator;
  EXPECT_THROW(emulator.launch(Sum{}, {.x = 0}, {x.view()}), Error);
}

}  // namespace
}  // namespace trilith::test
