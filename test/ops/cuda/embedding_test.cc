#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/ops/cuda/embedding.hpp>

#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class EmbeddingKernels : public testing::Test {};
TYPED_TEST_SUITE(EmbeddingKernels, ElementTypes);

using Numbers = std::vector<std::int32_t>;

Vector<const std::int32_t> view(const Numbers& numbers) {
  return {numbers.data(), {static_cast<Index>(numbers.size())}};
}

// Of 40 tokens, of which a rank holds 20 from the tenth on.
constexpr Index first_row = 10;
constexpr Index held_rows = 20;

Numbers random_tokens(Index count) {
  const Philox random(5, 0);
  Numbers tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random.block(i)[0] % 40));
  return tokens;
}

TYPED_TEST(EmbeddingKernels, TakeTheRowsOfThisRank) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    SCOPED_TRACE(extent);
    const auto tokens = random_tokens(extent.rows);
    const auto table = random_elements<T>({held_rows, extent.columns, extent.padding}, 1);
    const auto y = in_every_order([&](const Emulated::Stream& s) {
      Elements<T> result(extent);
      ops::embedding(s, view(tokens), table.matrix(), first_row, result.matrix());
      return result;
    });
    expect_near(y, [&](Index n, Index column) {
      const Index row = tokens[static_cast<std::size_t>(n)] - first_row;
      return Near{row >= 0 && row < held_rows ? table(row, column) : 0.0, 0};
    });
    EXPECT_TRUE(y.padding_untouched());
  }
}

void expect_sums_of(const Elements<float>& d_table, const Elements<float>& before, const auto& dy,
                    const Numbers& tokens) {
  expect_near(d_table, [&](Index row, Index column) {
    Near near{before(row, column), 0};
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      if (tokens[n] - first_row == row) near.value += dy(static_cast<Index>(n), column);
    }
    // As many additions as tokens, of numbers below 6 or so.
    near.tolerance = 0x1p-24 * 6 * static_cast<double>(tokens.size() * tokens.size()) / 4;
    return near;
  });
}

TYPED_TEST(EmbeddingKernels, BackwardAddsTheRowsOfEqualTokens) {
  using T = TypeParam;
  for (const Extent& extent :
       {Extent{1, 1}, Extent{30, 33, 1}, Extent{50, 64, 8}, Extent{12, 2056}, Extent{12, 520, 1}}) {
    SCOPED_TRACE(extent);
    const auto tokens = random_tokens(extent.rows);
    const auto dy = random_elements<T>(extent, 1);
    const auto before = random_elements<float>({held_rows, extent.columns, extent.padding}, 2);
    const auto d_table = in_every_order([&](const Emulated::Stream& s) {
      auto sums = before;
      ops::embedding_backward(s, view(tokens), dy.matrix(), first_row, sums.matrix());
      return sums;
    });
    expect_sums_of(d_table, before, dy, tokens);
    EXPECT_TRUE(d_table.padding_untouched());
  }
}

// One token many times, more than a block looks at at once, with others between, and one that comes again
// late.
TYPED_TEST(EmbeddingKernels, BackwardTakesAnyMultiplicity) {
  using T = TypeParam;
  Numbers tokens(1200, 17);
  for (std::size_t i = 0; i < tokens.size(); i += 7) tokens[i] = static_cast<std::int32_t>(i % 20);
  tokens[3] = tokens[1150] = 29;
  const auto dy = random_elements<T>({1200, 8}, 1);
  const auto before = random_elements<float>({held_rows, 8}, 2);
  const auto d_table = in_every_order([&](const Emulated::Stream& s) {
    auto sums = before;
    ops::embedding_backward(s, view(tokens), dy.matrix(), first_row, sums.matrix());
    return sums;
  });
  // In ascending order.
  auto expected = before;
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    const Index row = tokens[n] - first_row;
    if (row < 0 || row >= held_rows) continue;
    for (Index c = 0; c < 8; ++c) expected(row, c) += static_cast<float>(dy(static_cast<Index>(n), c));
  }
  EXPECT_TRUE(d_table == expected);
}

// What is read of the tokens does not grow with their square.
TYPED_TEST(EmbeddingKernels, BackwardLooksBackToTheTokenBefore) {
  using T = TypeParam;
  constexpr Index count = 4096;
  constexpr Index at_once = 512;
  const auto dy = random_elements<T>({count, 8}, 1);
  auto sums = random_elements<float>({held_rows, 8}, 2);
  const Emulated::Stream s;
  ops::embedding_backward(s, view(Numbers(count, 17)), dy.matrix(), first_row, sums.matrix());
  // Of each token, once by each thread of its block; and the first one's sum.
  const Index own = 128 * count;
  const Index summed = count + 8 + 8 * count;
  EXPECT_LE(s.counters().global_loads.bytes, 4 * (count * at_once + own + summed));
}

// The positions of a batch of three sequences, one row of which is padding.
const Numbers positions = {4, -1, 0, 9, 2};

TYPED_TEST(EmbeddingKernels, PositionsAreAddedInEachSequence) {
  using T = TypeParam;
  for (const Extent& of_kernels : kernel_extents) {
    const Extent extent{15, of_kernels.columns, of_kernels.padding};
    SCOPED_TRACE(extent);
    const auto table = random_elements<T>({10, extent.columns, 2 * extent.padding}, 1);
    const auto x = random_elements<T>(extent, 2);
    const auto y = in_every_order([&](const Emulated::Stream& s) {
      auto sum = x;
      ops::add_positions(s, table.matrix(), view(positions), sum.matrix());
      return sum;
    });
    expect_near(y, [&](Index n, Index column) {
      const std::int32_t position = positions[static_cast<std::size_t>(n % 5)];
      return Near{x(n, column) + (position < 0 ? 0.0 : table(position, column)), 0};
    });
    EXPECT_TRUE(y.padding_untouched());
  }
}

TYPED_TEST(EmbeddingKernels, PositionsBackwardSumsOverTheBatch) {
  using T = TypeParam;
  for (const Extent& of_kernels : kernel_extents) {
    const Extent extent{15, of_kernels.columns, of_kernels.padding};
    for (const auto accumulate : {Accumulate::no, Accumulate::yes}) {
      SCOPED_TRACE(extent);
      const auto dy = random_elements<T>(extent, 1);
      const auto before = random_elements<float>({10, extent.columns, 2 * extent.padding}, 2);
      const auto d_table = in_every_order([&](const Emulated::Stream& s) {
        auto sums = before;
        ops::positions_backward(s, dy.matrix(), view(positions), sums.matrix(), accumulate);
        return sums;
      });
      expect_near(d_table, [&](Index row, Index column) {
        const auto at = std::find(positions.begin(), positions.end(), row);
        if (at == positions.end()) return Near{before(row, column), 0};
        Near near{accumulate == Accumulate::yes ? before(row, column) : 0.0, 0};
        near.tolerance = 0x1p-24 * std::abs(near.value) * 3;
        for (Index n = at - positions.begin(); n < 15; n += 5) {
          near.value += dy(n, column);
          near.tolerance += 0x1p-24 * std::abs(dy(n, column)) * 3;
        }
        return near;
      });
      EXPECT_TRUE(d_table.padding_untouched());
    }
  }
}

TYPED_TEST(EmbeddingKernels, NothingIsLaunchedForNoTokens) {
  using T = TypeParam;
  const Emulated::Stream s;
  Elements<T> none(Extent{0, 8});
  Elements<float> table(Extent{4, 8});
  const Elements<T> rows(Extent{4, 8});
  ops::embedding(s, view({}), rows.matrix(), 0, none.matrix());
  ops::embedding_backward(s, view({}), none.matrix(), 0, table.matrix());
  ops::add_positions(s, rows.matrix(), view({}), none.matrix());
  ops::positions_backward(s, none.matrix(), view({}), table.matrix(), Accumulate::no);
  expect_no_launch(s);
}

}  // namespace
}  // namespace trilith::test
