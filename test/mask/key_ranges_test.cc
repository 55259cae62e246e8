// Key ranges are what the mask says of positions, for every split, pair of ranks and mask; and the balance
// that splits promise is counted.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/mask/key_ranges.hpp>

#include "test/mask/naive.hpp"
#include "test/mask/user_split.hpp"

namespace trilith {
namespace {

using test::NaiveMask;

constexpr int rank_counts[] = {1, 2, 3, 4, 5, 8};

// The rows of all ranks, in order of position.
template <class Split>
LocalRows<Contiguous> gathered(const SequenceSplit<Split>& split) {
  return {0, 1, split.padded()};
}

// Ranges and count of one block against the predicate.
template <class QuerySplit, class KeySplit>
void expect_ranges(const NaiveMask& naive, const BoundMask& bound, const LocalRows<QuerySplit>& queries,
                   const LocalRows<KeySplit>& keys) {
  constexpr std::int32_t unset = -7;
  std::vector<std::int32_t> first(queries.size(), unset);
  std::vector<std::int32_t> last(queries.size(), unset);
  key_ranges(bound, queries, keys, {first.data(), {queries.size()}}, {last.data(), {queries.size()}});

  Index visible = 0;
  for (Index row = 0; row < queries.size(); ++row) {
    const Index query = queries.position(row);
    ASSERT_LE(0, first[row]);
    ASSERT_LE(first[row], last[row]) << "row " << row;
    ASSERT_LE(last[row], keys.size()) << "row " << row;
    if (row > 0) {
      ASSERT_LE(first[row - 1], first[row]) << "row " << row;
      ASSERT_LE(last[row - 1], last[row]) << "row " << row;
    }
    if (query >= bound.queries()) {
      ASSERT_EQ(first[row], last[row]) << "row " << row;
    }
    for (Index key_row = 0; key_row < keys.size(); ++key_row) {
      const Index key = keys.position(key_row);
      const bool sees = query < bound.queries() && key < bound.keys() && naive.sees(query, key);
      ASSERT_EQ(first[row] <= key_row && key_row < last[row], sees)
          << "row " << row << ", key row " << key_row;
      visible += sees ? 1 : 0;
    }
  }
  ASSERT_EQ(visible_scores(bound, queries, keys), visible);
}

// Every pair of ranks, and the gathered sequence on either side and on both.
template <class QuerySplit, class KeySplit>
void expect_ranges_of_all_ranks(const NaiveMask& naive, const SequenceSplit<QuerySplit>& queries,
                                const SequenceSplit<KeySplit>& keys) {
  SCOPED_TRACE(naive.name + ", " + std::to_string(queries.length()) + " queries, " +
               std::to_string(keys.length()) + " keys, " + std::to_string(queries.ranks()) + " ranks");
  const BoundMask bound = naive.mask.of(queries.length(), keys.length());
  for (int i = 0; i < queries.ranks(); ++i) {
    for (int j = 0; j < keys.ranks(); ++j) {
      ASSERT_NO_FATAL_FAILURE(expect_ranges(naive, bound, queries.rows_of(i), keys.rows_of(j)));
    }
    ASSERT_NO_FATAL_FAILURE(expect_ranges(naive, bound, queries.rows_of(i), gathered(keys)));
  }
  ASSERT_NO_FATAL_FAILURE(expect_ranges(naive, bound, gathered(queries), keys.rows_of(0)));
  ASSERT_NO_FATAL_FAILURE(expect_ranges(naive, bound, gathered(queries), gathered(keys)));
}

template <class Split>
class KeyRanges : public testing::Test {};
using Splits = testing::Types<Contiguous, Zigzag, Striped, test::PairsOfRows>;
TYPED_TEST_SUITE(KeyRanges, Splits);

// Lengths up to twice those that 8 ranks divide, so with and without padding, and with ranks that hold
// nothing but padding.
TYPED_TEST(KeyRanges, AreWhatTheMaskSaysOfPositions) {
  for (Index length = 0; length <= 33; length += length < 20 ? 1 : 4) {
    for (const NaiveMask& naive : test::naive_masks(length)) {
      for (const int ranks : rank_counts) {
        const SequenceSplit<TypeParam> split(length, ranks, Padding::yes);
        ASSERT_NO_FATAL_FAILURE(expect_ranges_of_all_ranks(naive, split, split));
      }
    }
  }
}

TYPED_TEST(KeyRanges, HoldForQueriesAndKeysOfDifferentLengths) {
  for (Index queries = 0; queries <= 9; ++queries) {
    for (Index keys = 0; keys <= 9; ++keys) {
      for (const NaiveMask& naive : test::naive_windows(queries, keys)) {
        for (const int ranks : {1, 3}) {
          ASSERT_NO_FATAL_FAILURE(
              expect_ranges_of_all_ranks(naive, SequenceSplit<TypeParam>(queries, ranks, Padding::yes),
                                         SequenceSplit<TypeParam>(keys, ranks, Padding::yes)));
        }
      }
    }
  }
}

TYPED_TEST(KeyRanges, HoldForQueriesAndKeysOfDifferentSplits) {
  for (const NaiveMask& naive : test::naive_masks(14)) {
    const SequenceSplit<TypeParam> queries(14, 3, Padding::yes);
    ASSERT_NO_FATAL_FAILURE(
        expect_ranges_of_all_ranks(naive, queries, SequenceSplit<Contiguous>(14, 2, Padding::yes)));
    ASSERT_NO_FATAL_FAILURE(
        expect_ranges_of_all_ranks(naive, queries, SequenceSplit<Zigzag>(14, 3, Padding::yes)));
    ASSERT_NO_FATAL_FAILURE(
        expect_ranges_of_all_ranks(naive, queries, SequenceSplit<Striped>(14, 5, Padding::yes)));
  }
}

// Scores of each rank on each hop of a causal ring: on hop h it meets the keys of rank r − h.
template <class Split>
constexpr std::vector<std::vector<Index>> causal_ring(Index length, int ranks) {
  const SequenceSplit<Split> split(length, ranks);
  const BoundMask causal = mask::causal().of(length, length);
  std::vector<std::vector<Index>> scores(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int hop = 0; hop < ranks; ++hop) {
      const int source = (rank - hop + ranks) % ranks;
      scores[rank].push_back(visible_scores(causal, split.rows_of(rank), split.rows_of(source)));
    }
  }
  return scores;
}

Index total(const std::vector<Index>& hops) {
  return std::accumulate(hops.begin(), hops.end(), Index{0});
}

// With parts of n = s / 2P rows: 2n² + n on hop 0 and 2n² on each later one.
TEST(Zigzag, BalancesACausalMaskOnEveryHop) {
  static_assert(causal_ring<Zigzag>(8, 2) == std::vector<std::vector<Index>>{{10, 8}, {10, 8}});
  for (const int ranks : rank_counts) {
    for (Index n = 1; n <= 6; ++n) {
      const Index s = 2 * ranks * n;
      for (const std::vector<Index>& hops : causal_ring<Zigzag>(s, ranks)) {
        EXPECT_EQ(hops[0], 2 * n * n + n);
        for (int hop = 1; hop < ranks; ++hop) EXPECT_EQ(hops[hop], 2 * n * n);
        EXPECT_EQ(total(hops), s * (s + 1) / (2 * ranks));
      }
    }
  }
}

// With parts of m = s / P rows: rank r does m(m + 1) / 2 on hop 0, m² on its first r hops after that, and
// nothing on those that follow, while the last rank works on every hop.
TEST(Contiguous, LeavesACausalMaskUnbalanced) {
  for (const int ranks : rank_counts) {
    for (Index m = 1; m <= 6; ++m) {
      const auto ring = causal_ring<Contiguous>(ranks * m, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(ring[rank][0], m * (m + 1) / 2);
        for (int hop = 1; hop < ranks; ++hop) EXPECT_EQ(ring[rank][hop], hop <= rank ? m * m : 0);
      }
    }
  }
  // The last of 8 ranks does 15 times the work of the first, and nearly twice the average.
  const auto ring = causal_ring<Contiguous>(8000, 8);
  EXPECT_NEAR(static_cast<double>(total(ring[7])) / total(ring[0]), 15, 0.02);
  EXPECT_NEAR(static_cast<double>(total(ring[7])) / (8000.0 * 8001 / 16), 2 - 1.0 / 8, 0.001);
}

// With m rows a rank: m(m + 1) / 2 with keys of its own or of a rank before, else m(m − 1) / 2.
TEST(Striped, BalancesACausalMaskToOneScoreARow) {
  for (const int ranks : rank_counts) {
    for (Index m = 1; m <= 6; ++m) {
      const auto ring = causal_ring<Striped>(ranks * m, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (int hop = 0; hop < ranks; ++hop) {
          EXPECT_EQ(ring[rank][hop], hop <= rank ? m * (m + 1) / 2 : m * (m - 1) / 2);
        }
      }
    }
  }
}

// With documents no longer than a rank's part, a ring over a contiguous split has nothing to do after hop 1.
TEST(Documents, FarHopsOfShortDocumentsSeeNothing) {
  const SequenceSplit<Contiguous> split(64, 8);
  const BoundMask bound =
      (mask::documents({0, 6, 13, 21, 28, 36, 42, 50, 57, 64}) & mask::causal()).of(64, 64);
  for (int rank = 0; rank < 8; ++rank) {
    for (int source = 0; source < 8; ++source) {
      if (source == rank || source == rank - 1) continue;
      EXPECT_EQ(visible_scores(bound, split.rows_of(rank), split.rows_of(source)), 0);
    }
  }
}

}  // namespace
}  // namespace trilith
