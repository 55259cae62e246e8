// Reductions over ranks as a GPU makes them, on the emulator.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/comm/reduce_ranks.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

using kernels::RankBuffers;
using kernels::ReduceRanks;

template <class T>
using Buffers = std::vector<Buffer<T>>;

template <class T>
Buffers<T> random_buffers(int ranks, Index count) {
  const Philox random(11, 0);
  Buffers<T> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.emplace_back(count);
    for (Index i = 0; i < count; ++i) {
      buffers.back()[i] = T(100 * random.normal(static_cast<std::uint64_t>(rank * count + i)));
    }
  }
  return buffers;
}

template <class T>
std::vector<T> values_of(Buffer<T>& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

template <class T>
bool same(T a, T b) {
  if constexpr (half<T>) {
    return a.bits == b.bits;
  } else {
    return a == b;
  }
}

// From `first` on in every buffer, in place.
template <class T, class Op, int N>
void reduce(Buffers<T>& buffers, Index first, Index count) {
  RankBuffers<T> p;
  for (Buffer<T>& buffer : buffers) {
    p.in[p.inputs++] = buffer.view().from(first);
    p.out[p.outputs++] = buffer.view().from(first);
  }
  p.count = count;
  using Kernel = ReduceRanks<T, Op, N>;
  simt::Emulator emulator({.seed = 5});
  emulator.launch(Kernel{}, Kernel::grid(count), p);
}

// Bit for bit what adding in ascending rank gives, in float32 for 16-bit elements.
template <class T, int N>
void expect_sum(int ranks, Index count) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements of " << sizeof(T)
                                  << " bytes, " << N << " at once");
  using Total = std::conditional_t<half<T>, float, T>;
  Buffers<T> buffers = random_buffers<T>(ranks, count);
  std::vector<T> expected;
  for (Index i = 0; i < count; ++i) {
    Total total = static_cast<Total>(buffers[0][i]);
    for (int rank = 1; rank < ranks; ++rank) {
      total += static_cast<Total>(buffers[static_cast<std::size_t>(rank)][i]);
    }
    expected.push_back(T(total));
  }
  reduce<T, kernels::SumOfRanks, N>(buffers, 0, count);
  for (Buffer<T>& buffer : buffers) {
    for (Index i = 0; i < count; ++i)
      ASSERT_TRUE(same(buffer[i], expected[static_cast<std::size_t>(i)])) << i;
  }
}

TEST(ReduceRanks, AddsInAscendingRankInPlace) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const Index count : {1, 7, 8, 2049, 4000}) {
      expect_sum<float, 4>(ranks, count);
      expect_sum<double, 2>(ranks, count);
      expect_sum<int, 4>(ranks, count);
      expect_sum<BFloat16, 8>(ranks, count);
      expect_sum<Float16, 8>(ranks, count);
      expect_sum<BFloat16, 1>(ranks, count);
    }
  }
  expect_sum<float, 4>(RankBuffers<float>::most, 300);
}

// More elements than the largest grid takes at once.
TEST(ReduceRanks, AGridGoesOverAllElements) {
  expect_sum<float, 1>(2, 256 * 256 + 100);
}

TEST(ReduceRanks, TouchesItsElementsOnly) {
  Buffers<float> buffers = random_buffers<float>(2, 40);
  const std::vector<float> before = values_of(buffers[1]);
  reduce<float, kernels::SumOfRanks, 4>(buffers, 8, 21);
  for (Index i = 0; i < 40; ++i) {
    EXPECT_EQ(buffers[1][i] == before[static_cast<std::size_t>(i)], i < 8 || i >= 29) << i;
  }
}

TEST(ReduceRanks, TheGreatestIsNanWhereARankHasOne) {
  Buffers<float> buffers = random_buffers<float>(3, 4);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    buffers[rank][0] = static_cast<float>(rank);
    buffers[rank][1] = rank == 1 ? nan : infinity;
    buffers[rank][2] = rank == 0 ? nan : 1;
    buffers[rank][3] = -infinity;
  }
  reduce<float, kernels::MaxOfRanks, 4>(buffers, 0, 4);
  for (Buffer<float>& buffer : buffers) {
    EXPECT_EQ(buffer[0], 2);
    EXPECT_TRUE(std::isnan(buffer[1]));
    EXPECT_TRUE(std::isnan(buffer[2]));
    EXPECT_EQ(buffer[3], -infinity);
  }
}

}  // namespace
}  // namespace trilith::test
