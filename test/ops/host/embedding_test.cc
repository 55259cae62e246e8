#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/embedding.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

constexpr Index vocabulary = 30;

// Ranks' parts of the vocabulary, as first row and count: all of it, two halves, none.
constexpr std::pair<Index, Index> splits[] = {{0, 30}, {0, 13}, {13, 17}, {30, 0}};

// Tokens in [0, vocabulary), many of them more than once.
std::vector<std::int32_t> random_tokens(Index count) {
  const Philox philox(11, 0);
  std::vector<std::int32_t> tokens;
  for (Index n = 0; n < count; ++n) {
    const std::uint32_t word = philox.block(static_cast<std::uint64_t>(n))[0];
    tokens.push_back(static_cast<std::int32_t>(word % static_cast<std::uint32_t>(vocabulary)));
  }
  return tokens;
}

Vector<const std::int32_t> view(const std::vector<std::int32_t>& tokens) {
  return {tokens.data(), {static_cast<Index>(tokens.size())}};
}

TEST(Embedding, TakesTheRowOfEachTokenAndZerosForThoseOfOtherRanks) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor table = random_tensor({vocabulary, extent.columns, 2}, 1);
    const auto tokens = random_tokens(extent.rows);
    for (const auto& [first, count] : splits) {
      Tensor y(extent);
      ops::embedding(Host::Stream(3), view(tokens), table.matrix().slice(0, first, count), first, y.matrix());
      for (Index n = 0; n < extent.rows; ++n) {
        const Index token = tokens[static_cast<std::size_t>(n)];
        const bool held = token >= first && token < first + count;
        for (Index c = 0; c < extent.columns; ++c) {
          ASSERT_EQ(y(n, c), held ? table(token, c) : 0.0f);
        }
      }
      EXPECT_TRUE(y.padding_untouched());
    }
  }
}

TEST(EmbeddingBackward, AddsTheGradientOfEachTokenToItsRow) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor dy = random_tensor(extent, 1);
    const auto tokens = random_tokens(extent.rows);
    const Tensor before = random_tensor({vocabulary, extent.columns, 2}, 2);
    for (const auto& [first, count] : splits) {
      Reference expected(vocabulary, extent.columns);
      for (Index row = 0; row < vocabulary; ++row) {
        for (Index c = 0; c < extent.columns; ++c) expected(row, c) = double{before(row, c)};
      }
      for (Index n = 0; n < extent.rows; ++n) {
        const Index token = tokens[static_cast<std::size_t>(n)];
        if (token < first || token >= first + count) continue;
        for (Index c = 0; c < extent.columns; ++c) expected(token, c) += double{dy(n, c)};
      }
      Tensor d_table = before;
      ops::embedding_backward(Host::Stream(3), view(tokens), dy.matrix(), first,
                              d_table.matrix().slice(0, first, count));
      // A row is the sum of about five terms, each rounded to 2^-24.
      EXPECT_LE(relative_error(d_table, expected), 5e-7);
      EXPECT_TRUE(d_table.padding_untouched());
    }
  }
}

// Rows of a sequence as a context rank may hold them: every other position of a longer table, and one of
// padding.
std::vector<std::int32_t> some_positions(Index sequence) {
  std::vector<std::int32_t> positions;
  for (Index s = 0; s < sequence; ++s) {
    positions.push_back(s == sequence / 2 ? -1 : static_cast<std::int32_t>(2 * s + 1));
  }
  return positions;
}

TEST(Positions, AreAddedToEachSequenceAndTheirGradientsSummedOverThem) {
  for (const Index batch : {1, 2, 5}) {
    for (const Extent extent : test::extents) {
      SCOPED_TRACE(extent);
      const Index sequence = extent.rows;
      const Extent all{batch * sequence, extent.columns, extent.padding};
      const Extent whole{2 * sequence + 1, extent.columns, extent.padding};
      const std::vector<std::int32_t> positions = some_positions(sequence);
      const Tensor table = random_tensor(whole, 1);
      const Tensor x = random_tensor(all, 2);
      Tensor y = x;
      ops::add_positions(Host::Stream(3), table.matrix(), view(positions), y.matrix());

      const Tensor before = random_tensor(whole, 3);
      Tensor overwritten = before;
      ops::positions_backward(Host::Stream(3), x.matrix(), view(positions), overwritten.matrix(),
                              Accumulate::no);
      Tensor added = before;
      ops::positions_backward(Host::Stream(3), x.matrix(), view(positions), added.matrix(), Accumulate::yes);

      Reference sum(whole.rows, whole.columns);
      Reference sum_and_before(whole.rows, whole.columns);
      for (Index row = 0; row < whole.rows; ++row) {
        for (Index c = 0; c < whole.columns; ++c)
          sum(row, c) = sum_and_before(row, c) = double{before(row, c)};
      }
      for (Index s = 0; s < sequence; ++s) {
        const Index position = positions[static_cast<std::size_t>(s)];
        for (Index c = 0; c < extent.columns; ++c) {
          if (position >= 0) sum(position, c) = 0;
          for (Index b = 0; b < batch; ++b) {
            const Index n = b * sequence + s;
            ASSERT_EQ(y(n, c), position < 0 ? x(n, c) : x(n, c) + table(position, c));
            if (position < 0) continue;
            sum(position, c) += double{x(n, c)};
            sum_and_before(position, c) += double{x(n, c)};
          }
        }
      }
      // At most six terms, each rounded to 2^-24.
      EXPECT_LE(relative_error(overwritten, sum), 5e-7);
      EXPECT_LE(relative_error(added, sum_and_before), 5e-7);
      EXPECT_TRUE(y.padding_untouched());
      EXPECT_TRUE(added.padding_untouched());
    }
  }
}

TEST(Embedding, SameBitsForAnyNumberOfThreads) {
  constexpr Index sequence = 200;
  const Extent extent{3 * sequence, 257, 3};
  const Tensor table = random_tensor({vocabulary, extent.columns}, 1);
  const Tensor positions = random_tensor({2 * sequence, extent.columns}, 2);
  const std::vector<std::int32_t> position_of_row = some_positions(sequence);
  const auto tokens = random_tokens(extent.rows);
  test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
    Tensor y(extent);
    ops::embedding(stream, view(tokens), table.matrix(), 0, y.matrix());
    ops::add_positions(stream, positions.matrix(), view(position_of_row), y.matrix());
    Tensor d_table = table;
    ops::embedding_backward(stream, view(tokens), y.matrix(), 0, d_table.matrix());
    Tensor d_positions = positions;
    ops::positions_backward(stream, y.matrix(), view(position_of_row), d_positions.matrix(), Accumulate::yes);
    return std::vector<Tensor>{y, d_table, d_positions};
  });
}

}  // namespace
}  // namespace trilith
