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

TEST(Positions, AreAddedToEachSequenceAndTheirGradientsSummedOverThem) {
  for (const Index batch : {1, 2, 5}) {
    for (const Extent extent : test::extents) {
      SCOPED_TRACE(extent);
      const Index sequence = extent.rows;
      const Extent all{batch * sequence, extent.columns, extent.padding};
      const Tensor positions = random_tensor(extent, 1);
      const Tensor x = random_tensor(all, 2);
      Tensor y = x;
      ops::add_positions(Host::Stream(3), positions.matrix(), y.matrix());

      const Tensor before = random_tensor(extent, 3);
      Tensor overwritten(extent);
      ops::positions_backward(Host::Stream(3), x.matrix(), overwritten.matrix(), Accumulate::no);
      Tensor added = before;
      ops::positions_backward(Host::Stream(3), x.matrix(), added.matrix(), Accumulate::yes);

      Reference sum(sequence, extent.columns);
      Reference sum_and_before(sequence, extent.columns);
      for (Index s = 0; s < sequence; ++s) {
        for (Index c = 0; c < extent.columns; ++c) {
          for (Index b = 0; b < batch; ++b) {
            const Index n = b * sequence + s;
            ASSERT_EQ(y(n, c), x(n, c) + positions(s, c));
            sum(s, c) += double{x(n, c)};
          }
          sum_and_before(s, c) = sum(s, c) + double{before(s, c)};
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
  const Tensor positions = random_tensor({sequence, extent.columns}, 2);
  const auto tokens = random_tokens(extent.rows);
  test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
    Tensor y(extent);
    ops::embedding(stream, view(tokens), table.matrix(), 0, y.matrix());
    ops::add_positions(stream, positions.matrix(), y.matrix());
    Tensor d_table = table;
    ops::embedding_backward(stream, view(tokens), y.matrix(), 0, d_table.matrix());
    Tensor d_positions = positions;
    ops::positions_backward(stream, y.matrix(), d_positions.matrix(), Accumulate::yes);
    return std::vector<Tensor>{y, d_table, d_positions};
  });
}

}  // namespace
}  // namespace trilith
