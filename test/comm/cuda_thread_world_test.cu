// Ranks that are threads of this process and compute on GPUs, one or several: what each collective does, and
// how a world ends when a rank does not do its part.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/comm/cuda/thread_world.cuh>
#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/transfer.cuh>

#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using testing::HasSubstr;

using CudaWorld = GpuTest;

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks;
  for (int r = 0; r < count; ++r) ranks.push_back(r);
  return ranks;
}

// What a rank has, made and kept on its own thread.
struct OnRank {
  explicit OnRank(const CudaThreadRank& rank)
      : memory(Place{.rank = rank.rank(), .poison = true}), stream(Place{.rank = rank.rank()}) {}
  Cuda::Memory memory;
  Cuda::Stream stream;
};

template <class T>
std::vector<T> random_values(Index count, int rank) {
  const Philox random(17, static_cast<std::uint64_t>(rank));
  std::vector<T> values;
  for (Index i = 0; i < count; ++i) values.push_back(T(100 * random.normal(static_cast<std::uint64_t>(i))));
  return values;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) {
    if constexpr (half<T>) {
      return x.bits == y.bits;
    } else {
      return x == y;
    }
  });
}

// In ascending rank; of 16-bit elements in float32.
template <class T>
std::vector<T> sum_of_ranks(Index count, int ranks) {
  using Total = std::conditional_t<half<T>, float, T>;
  std::vector<Total> totals;
  for (const T value : random_values<T>(count, 0)) totals.push_back(static_cast<Total>(value));
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> values = random_values<T>(count, rank);
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += static_cast<Total>(values[i]);
  }
  std::vector<T> sums;
  for (const Total total : totals) sums.push_back(T(total));
  return sums;
}

template <class T>
std::vector<T> part(const std::vector<T>& all, Index first, Index count) {
  return {all.begin() + first, all.begin() + first + count};
}

template <class T>
void expect_collectives(int ranks, Index count) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements of " << sizeof(T)
                                  << " bytes");
  CudaThreadWorld world(ranks);
  world.run([&](CudaThreadRank& self) {
    OnRank mine(self);
    const Cuda::Stream& s = mine.stream;
    CudaThreadCommunicator group = self.group("all", all_ranks(ranks));
    const int r = self.rank();
    const std::vector<T> values = random_values<T>(count, r);
    const std::vector<T> sums = sum_of_ranks<T>(count, ranks);

    const GpuVector<T> x(mine.memory, s, values);
    group.all_reduce(s, x.view()).wait(s);
    EXPECT_TRUE(same(x.values(s), sums)) << "all_reduce";

    const Index block = count / ranks;
    const GpuVector<T> whole(mine.memory, s, part(values, 0, block * ranks));
    const GpuVector<T> mine_of_sum(mine.memory, block);
    group.reduce_scatter(s, whole.const_view(), mine_of_sum.view()).wait(s);
    EXPECT_TRUE(same(mine_of_sum.values(s), part(sums, r * block, block))) << "reduce_scatter";

    const GpuVector<T> gathered(mine.memory, block * ranks);
    group.all_gather(s, mine_of_sum.const_view(), gathered.view()).wait(s);
    EXPECT_TRUE(same(gathered.values(s), part(sums, 0, block * ranks))) << "all_gather";

    const int root = ranks - 1;
    const GpuVector<T> sent(mine.memory, s, values);
    group.broadcast(s, sent.view(), root).wait(s);
    EXPECT_TRUE(same(sent.values(s), random_values<T>(count, root))) << "broadcast";

    const GpuVector<T> before(mine.memory, s, values);
    const GpuVector<T> shifted(mine.memory, count);
    group.ring_shift(s, before.const_view(), shifted.view()).wait(s);
    EXPECT_TRUE(same(shifted.values(s), random_values<T>(count, (r + ranks - 1) % ranks))) << "ring_shift";
    group.barrier(s).wait(s);
  });
}

void expect_collectives_of(Index count) {
  for (const int ranks : {1, 2, 3, 8}) {
    expect_collectives<float>(ranks, count);
    expect_collectives<double>(ranks, count);
    expect_collectives<std::int32_t>(ranks, count);
    expect_collectives<BFloat16>(ranks, count);
    expect_collectives<Float16>(ranks, count);
  }
}

TEST_F(CudaWorld, CollectivesAreRightBitForBit) {
  for (const Index count : {8, 1001}) expect_collectives_of(count);
}

TEST_F(CudaWorld, LargeCollectivesAreRightBitForBit) {
  expect_collectives_of(300000);
}

// From an element on where no 16 bytes begin.
TEST_F(CudaWorld, ReducesUnalignedParts) {
  CudaThreadWorld world(2);
  world.run([](CudaThreadRank& self) {
    OnRank mine(self);
    const Cuda::Stream& s = mine.stream;
    CudaThreadCommunicator group = self.group("all", {0, 1});
    const std::vector<BFloat16> values = random_values<BFloat16>(1000, self.rank());
    const GpuVector<BFloat16> x(mine.memory, s, values);
    group.all_reduce(s, x.view().slice(0, 3, 990)).wait(s);
    const std::vector<BFloat16> reduced = x.values(s);
    EXPECT_TRUE(same(part(reduced, 3, 990), part(sum_of_ranks<BFloat16>(1000, 2), 3, 990)));
    EXPECT_TRUE(same(part(reduced, 0, 3), part(values, 0, 3)));
    EXPECT_TRUE(same(part(reduced, 993, 7), part(values, 993, 7)));
  });
}

TEST_F(CudaWorld, GroupsOfSomeRanksReduceAmongThemselves) {
  CudaThreadWorld world(4);
  world.run([](CudaThreadRank& self) {
    OnRank mine(self);
    const Cuda::Stream& s = mine.stream;
    const int r = self.rank();
    CudaThreadCommunicator pair = self.group("pair", {r % 2, r % 2 + 2});
    const GpuVector<double> x(mine.memory, s, {static_cast<double>(1 << r)});
    pair.all_reduce(s, x.view()).wait(s);
    EXPECT_EQ(x.values(s)[0], r % 2 == 0 ? 5 : 10);
    pair.all_reduce(s, x.view(), Reduction::max).wait(s);
    EXPECT_EQ(x.values(s)[0], r % 2 == 0 ? 5 : 10);
  });
}

// Around a ring, many times, with other work between posting and waiting, and nothing that waits for a GPU.
TEST_F(CudaWorld, ExchangesMoveWhatTheStreamHasMadeBefore) {
  constexpr int ranks = 3;
  CudaThreadWorld world(ranks);
  world.run([](CudaThreadRank& self) {
    OnRank mine(self);
    const Cuda::Stream& s = mine.stream;
    CudaThreadCommunicator ring = self.group("ring", all_ranks(ranks));
    const int r = self.rank();
    constexpr Index count = 100000;
    std::array<GpuVector<float>, 2> blocks{GpuVector<float>(mine.memory, s, random_values<float>(count, r)),
                                           GpuVector<float>(mine.memory, count)};
    const GpuVector<float> copied(mine.memory, count);
    for (int hop = 0; hop < 2 * ranks; ++hop) {
      const GpuVector<float>& present = blocks[static_cast<std::size_t>(hop % 2)];
      const GpuVector<float>& arriving = blocks[static_cast<std::size_t>(1 - hop % 2)];
      const std::array messages{Message::send((r + 1) % ranks, present.view()),
                                Message::receive((r + ranks - 1) % ranks, arriving.view())};
      CudaThreadCommunicator::handle transfer = ring.exchange(s, messages);
      copy(s, present.const_view(), copied.view());
      transfer.wait(s);
    }
    EXPECT_TRUE(same(blocks[0].values(s), random_values<float>(count, r)));
    EXPECT_TRUE(same(copied.values(s), random_values<float>(count, (r + 1) % ranks)));
  });
}

TEST_F(CudaWorld, MessagesOfAPairArriveInTheOrderSent) {
  CudaThreadWorld world(2);
  world.run([](CudaThreadRank& self) {
    OnRank mine(self);
    const Cuda::Stream& s = mine.stream;
    CudaThreadCommunicator pair = self.group("pair", {0, 1});
    const GpuVector<float> x(mine.memory, s, {10.0f + self.rank(), 20.0f + self.rank()});
    const Vector<float> first = x.view().slice(0, 0, 1);
    const Vector<float> second = x.view().slice(0, 1, 1);
    if (self.rank() == 0) {
      auto a = pair.send(s, 1, first);
      auto b = pair.send(s, 1, second);
      b.wait(s);
      a.wait(s);
    } else {
      auto a = pair.receive(s, 0, second);
      auto b = pair.receive(s, 0, first);
      a.wait(s);
      b.wait(s);
      EXPECT_EQ(x.values(s), (std::vector<float>{20, 10}));
    }
  });
}

// What the world says when the task fails.
std::string message_of(CudaThreadWorld& world, const std::function<void(CudaThreadRank&)>& task) {
  try {
    world.run(task);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(CudaWorld, AFailingRankStopsTheOthersWithItsName) {
  CudaThreadWorld world(3);
  const std::string message = message_of(world, [](CudaThreadRank& self) {
    OnRank mine(self);
    const Cuda::Stream& s = mine.stream;
    CudaThreadCommunicator group = self.group("all", {0, 1, 2});
    const GpuVector<float> x(mine.memory, s, {1, 2, 3});
    CudaThreadCommunicator::handle handle = group.all_reduce(s, x.view());
    if (self.rank() == 1) throw Error("the disk is full", "empty it");
    handle.wait(s);
    group.all_reduce(s, x.view()).wait(s);
  });
  EXPECT_EQ(message, "rank 1: the disk is full; empty it");
}

TEST_F(CudaWorld, ARankThatReturnsEarlyIsNamedToThoseThatWait) {
  CudaThreadWorld world(2);
  const std::string message = message_of(world, [](CudaThreadRank& self) {
    OnRank mine(self);
    CudaThreadCommunicator group = self.group("all", {0, 1});
    const GpuVector<float> x(mine.memory, mine.stream, {1, 2, 3});
    if (self.rank() == 0) group.all_reduce(mine.stream, x.view()).wait(mine.stream);
  });
  EXPECT_THAT(message, HasSubstr("rank 1 (which has returned)"));
}

}  // namespace
}  // namespace trilith::test
