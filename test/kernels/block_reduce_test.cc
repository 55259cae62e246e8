// Reductions over a block: the result, and its bits, which are those of CUB's order.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/emulator.hpp>
#include <trilith/simt/lane.hpp>

#include "test/kernels/block_reduce_kernel.hpp"
#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

using kernels::Floats;
using kernels::Maximum;
using kernels::Sum;

// Of a warp's values neighbours combine, then neighbouring pairs, and so on; then the warps, one after
// another.
template <class V, class Combine>
V in_cub_order(const V* x, int warps, Combine combine) {
  const auto of_warp = [&](int warp) {
    V values[simt::warp_size];
    std::copy_n(x + warp * simt::warp_size, simt::warp_size, values);
    for (int distance = 1; distance < simt::warp_size; distance *= 2) {
      for (int i = 0; i < simt::warp_size; i += 2 * distance) {
        values[i] = combine(values[i], values[i + distance]);
      }
    }
    return values[0];
  };
  V result = of_warp(0);
  for (int warp = 1; warp < warps; ++warp) result = combine(result, of_warp(warp));
  return result;
}

template <class V>
bool same_bits(const V& a, const V& b) {
  return std::memcmp(&a, &b, sizeof(V)) == 0;
}

// Both reductions of the kernel, under several orders of its lanes: the bits that CUB's order gives, and what
// `expect_right(x, count, result)` holds.
template <class V, int Warps, class Combine, class Draw, class ExpectRight>
void expect_reduced(Draw draw, ExpectRight expect_right) {
  using Kernel = ReduceTwice<V, Warps, Combine>;
  constexpr int count = Kernel::threads;
  SCOPED_TRACE(testing::Message() << Warps << " warps");
  Buffer<V> x(2 * count);
  for (Index i = 0; i < x.size(); ++i) x[i] = draw(i);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Buffer<V> results(2 * count);
    simt::Emulator emulator({.seed = seed});
    emulator.launch(Kernel{}, {}, {x.view(), results.view()});
    for (int i = 0; i < 2; ++i) {
      const V* in = x.data() + i * count;
      expect_right(in, count, results[i * count]);
      const V expected = in_cub_order(in, Warps, Combine{});
      for (int thread = 0; thread < count; ++thread) {
        ASSERT_TRUE(same_bits(results[i * count + thread], expected))
            << "reduction " << i << ", thread " << thread;
      }
    }
  }
}

template <class V, class Combine, class Draw, class ExpectRight>
void expect_reduced_by_blocks(Draw draw, ExpectRight expect_right) {
  expect_reduced<V, 1, Combine>(draw, expect_right);
  expect_reduced<V, 2, Combine>(draw, expect_right);
  expect_reduced<V, 4, Combine>(draw, expect_right);
  expect_reduced<V, 8, Combine>(draw, expect_right);
  expect_reduced<V, 16, Combine>(draw, expect_right);
}

// A term goes through at most 20 additions, of 16 warps, each of which rounds by half an epsilon of what it
// gives, which is no larger than the sum of sizes.
template <class T, class Term>
void expect_sum(int count, Term term, T actual) {
  long double sum = 0;
  long double sizes = 0;
  for (int i = 0; i < count; ++i) {
    sum += term(i);
    sizes += std::abs(term(i));
  }
  EXPECT_NEAR(static_cast<double>(actual - sum), 0,
              static_cast<double>(10 * std::numeric_limits<T>::epsilon() * sizes));
}

const Philox random{11, 0};

TEST(BlockReduction, SumsFloatsInCubsOrder) {
  expect_reduced_by_blocks<float, Sum>([](Index i) { return random.normal(i); },
                                       [](const float* x, int count, float sum) {
                                         expect_sum(
                                             count, [x](int i) { return x[i]; }, sum);
                                       });
}

TEST(BlockReduction, SumsDoublesInCubsOrder) {
  // Of two floats, so that all bits of a double are in use.
  expect_reduced_by_blocks<double, Sum>(
      [](Index i) { return double{random.normal(2 * i)} + 0x1p-26 * double{random.normal(2 * i + 1)}; },
      [](const double* x, int count, double sum) {
        expect_sum(
            count, [x](int i) { return x[i]; }, sum);
      });
}

TEST(BlockReduction, SumsPairsInCubsOrder) {
  expect_reduced_by_blocks<Floats<2>, Sum>(
      [](Index i) {
        return Floats<2>{random.normal(2 * i), random.normal(2 * i + 1)};
      },
      [](const Floats<2>* x, int count, const Floats<2>& sums) {
        for (int j = 0; j < 2; ++j)
          expect_sum(
              count, [x, j](int i) { return x[i][j]; }, sums[j]);
      });
}

TEST(BlockReduction, FindsTheMaximum) {
  expect_reduced_by_blocks<float, Maximum>(
      [](Index i) { return random.normal(i); },
      [](const float* x, int count, float maximum) { EXPECT_EQ(maximum, *std::max_element(x, x + count)); });
}

}  // namespace
}  // namespace trilith::test
