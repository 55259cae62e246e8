// Splits are bijections with ascending rows, for any number of ranks, and refuse what they cannot divide.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/mask/split.hpp>

#include "test/mask/user_split.hpp"
#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using Positions = std::vector<Index>;

template <class Split>
Positions positions(const SequenceSplit<Split>& split, int rank) {
  Positions all;
  const LocalRows<Split> rows = split.rows_of(rank);
  for (Index row = 0; row < rows.size(); ++row) all.push_back(rows.position(row));
  return all;
}

template <class Split>
class EverySplit : public testing::Test {};
using Splits = testing::Types<Contiguous, Zigzag, Striped, test::PairsOfRows>;
TYPED_TEST_SUITE(EverySplit, Splits);

template <class Split>
constexpr bool has_every_position_once_in_ascending_order(int ranks, Index length) {
  std::vector<int> times(length, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    Index before = -1;
    for (Index row = 0; row < length / ranks; ++row) {
      const Index position = Split::position(rank, row, ranks, length);
      if (position <= before || position >= length) return false;
      ++times[position];
      before = position;
    }
  }
  return times == std::vector<int>(length, 1);
}

template <class Split>
constexpr bool rows_below_counts(int ranks, Index length) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (Index position = 0; position <= length; ++position) {
      Index count = 0;
      for (Index row = 0; row < length / ranks; ++row) {
        count += Split::position(rank, row, ranks, length) < position ? 1 : 0;
      }
      if (Split::rows_below(rank, position, ranks, length) != count) return false;
    }
  }
  return true;
}

TYPED_TEST(EverySplit, HasEveryPositionOnceInAscendingOrder) {
  static_assert(has_every_position_once_in_ascending_order<TypeParam>(3, 24));
  for (int ranks = 1; ranks <= 12; ++ranks) {
    const Index multiple = TypeParam::multiple(ranks);
    for (Index length = 0; length <= 9 * multiple; length += multiple) {
      EXPECT_TRUE(has_every_position_once_in_ascending_order<TypeParam>(ranks, length))
          << "length " << length << " over " << ranks << " ranks";
    }
  }
}

TYPED_TEST(EverySplit, CountsTheRowsBelowAPosition) {
  static_assert(rows_below_counts<TypeParam>(3, 24));
  for (int ranks = 1; ranks <= 12; ++ranks) {
    const Index multiple = TypeParam::multiple(ranks);
    for (Index length = 0; length <= 9 * multiple; length += multiple) {
      EXPECT_TRUE(rows_below_counts<TypeParam>(ranks, length))
          << "length " << length << " over " << ranks << " ranks";
    }
  }
}

TYPED_TEST(EverySplit, OfOneRankHoldsTheSequenceAsItIs) {
  for (Index length = 0; length <= 20; ++length) {
    const SequenceSplit<TypeParam> split(length, 1, Padding::yes);
    for (Index row = 0; row < length; ++row) EXPECT_EQ(split.rows_of(0).position(row), row);
  }
}

TYPED_TEST(EverySplit, PadsToTheNextMultipleWhereAllowed) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const Index multiple = TypeParam::multiple(ranks);
    for (Index length = 0; length <= 5 * multiple; ++length) {
      const SequenceSplit<TypeParam> split(length, ranks, Padding::yes);
      EXPECT_EQ(split.length(), length);
      EXPECT_EQ(split.padded() % multiple, 0);
      EXPECT_GE(split.padded(), length);
      EXPECT_LT(split.padded(), length + multiple);
      EXPECT_EQ(split.rows() * ranks, split.padded());
      EXPECT_EQ(split.rows_of(ranks - 1).size(), split.rows());
      const bool divides = length % multiple == 0;
      EXPECT_EQ(error_of([&] { SequenceSplit<TypeParam>(length, ranks); }).empty(), divides) << length;
    }
  }
}

TEST(Contiguous, GivesEachRankOnePart) {
  const SequenceSplit<Contiguous> split(8, 2);
  EXPECT_EQ(positions(split, 0), (Positions{0, 1, 2, 3}));
  EXPECT_EQ(positions(split, 1), (Positions{4, 5, 6, 7}));
  static_assert(Contiguous::multiple(5) == 5);
}

TEST(Zigzag, GivesEachRankAnEarlyPartAndALateOne) {
  const SequenceSplit<Zigzag> split(8, 2);
  EXPECT_EQ(positions(split, 0), (Positions{0, 1, 6, 7}));
  EXPECT_EQ(positions(split, 1), (Positions{2, 3, 4, 5}));
  static_assert(Zigzag::multiple(5) == 10);
}

TEST(Striped, GivesEachRankEveryPthPosition) {
  const SequenceSplit<Striped> split(9, 3);
  EXPECT_EQ(positions(split, 0), (Positions{0, 3, 6}));
  EXPECT_EQ(positions(split, 1), (Positions{1, 4, 7}));
  EXPECT_EQ(positions(split, 2), (Positions{2, 5, 8}));
  static_assert(Striped::multiple(5) == 5);
}

TEST(SequenceSplit, SaysWhatLengthWouldBeRight) {
  EXPECT_EQ(
      error_of([] { SequenceSplit<Zigzag>(10, 4); }),
      "Zigzag: sequence length must be divisible by 2 * CP to balance a causal mask; it is 10 and CP is "
      "4; take 8 or 16, or allow padding");
  EXPECT_EQ(error_of([] { SequenceSplit<Contiguous>(3, 4); }),
            "Contiguous: sequence length must be divisible by CP; it is 3 and CP is 4; take 4, or allow "
            "padding");
  EXPECT_EQ(error_of([] { SequenceSplit<Striped>(10, 4); }),
            "Striped: sequence length must be divisible by CP; it is 10 and CP is 4; take 8 or 12, or allow "
            "padding");
}

TEST(SequenceSplit, RefusesLengthsAndRanksThatCannotBe) {
  EXPECT_EQ(error_of([] { SequenceSplit<Zigzag>(8, 0); }),
            "a sequence of 8 positions over 0 ranks; a sequence has 0 to 2^31 - 1 positions, on at least one "
            "rank");
  EXPECT_NE(error_of([] { SequenceSplit<Zigzag>(-8, 2); }), "");
  EXPECT_NE(error_of([] { SequenceSplit<Zigzag>(Index{1} << 31, 2); }), "");
  EXPECT_EQ(error_of([] { SequenceSplit<Zigzag>((Index{1} << 31) - 1, 2, Padding::yes); }),
            "a sequence of 2147483647 positions is padded to 2147483648; a padded sequence has at most "
            "2^31 - 1 positions");
}

struct WithoutRule {
  static constexpr const char* name = "WithoutRule";
  static constexpr Index multiple(int ranks) { return ranks; }
  static constexpr Index position(int, Index row, int, Index) { return row; }
  static constexpr Index rows_below(int, Index position, int, Index) { return position; }
};

TEST(SequenceSplit, ConceptSaysWhatASplitSupplies) {
  static_assert(sequence_split<Contiguous> && sequence_split<Zigzag> && sequence_split<Striped>);
  static_assert(sequence_split<test::PairsOfRows>);
  static_assert(!sequence_split<WithoutRule>);
  static_assert(!sequence_split<int>);
}

}  // namespace
}  // namespace trilith
