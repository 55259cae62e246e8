// What a hop's queries see, and where it is a rectangle, against the pairs themselves.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/hop_ranges.hpp>
#include <trilith/device/host.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/ops/host/transfer.hpp>

namespace trilith::test {
namespace {

std::optional<ops::SeenRectangle> rectangle_of(const std::vector<std::int32_t>& first,
                                               const std::vector<std::int32_t>& last) {
  const Index queries = static_cast<Index>(first.size());
  return ops::seen_rectangle({first.data(), {queries}}, {last.data(), {queries}});
}

// Of the definition: exactly the pairs of the rectangle are those of the ranges.
bool is_what_they_say(const ops::SeenRectangle& rectangle, const std::vector<std::int32_t>& first,
                      const std::vector<std::int32_t>& last, std::int32_t keys) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(first.size()); ++i) {
    for (std::int32_t j = 0; j < keys; ++j) {
      const bool inside = rectangle.first_query <= i && i < rectangle.last_query &&
                          rectangle.first_key <= j && j < rectangle.last_key;
      const std::size_t query = static_cast<std::size_t>(i);
      if (inside != (first[query] <= j && j < last[query])) return false;
    }
  }
  return true;
}

// All rectangles of 4 queries and 3 keys, one of which must be found where there is one.
bool some_rectangle_is(const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& last) {
  for (std::int32_t a = 0; a <= 4; ++a) {
    for (std::int32_t b = a; b <= 4; ++b) {
      for (std::int32_t c = 0; c <= 3; ++c) {
        for (std::int32_t d = c; d <= 3; ++d) {
          if (is_what_they_say({a, b, c, d}, first, last, 3)) return true;
        }
      }
    }
  }
  return false;
}

TEST(SeenRectangle, IsFoundExactlyWhereThereIsOne) {
  int found = 0;
  // All that four queries may see of three keys, with every way to see none.
  for (int all = 0; all < 16 * 16 * 16 * 16; ++all) {
    std::vector<std::int32_t> first, last;
    for (int query = 0; query < 4; ++query) {
      const int own = all >> 4 * query & 15;
      first.push_back(own / 4);
      last.push_back(own % 4);
    }
    const auto rectangle = rectangle_of(first, last);
    ASSERT_EQ(rectangle.has_value(), some_rectangle_is(first, last)) << all;
    if (rectangle) {
      ++found;
      ASSERT_TRUE(is_what_they_say(*rectangle, first, last, 3)) << all;
    }
  }
  EXPECT_GT(found, 10000);
}

template <class Split>
HopRanges<Host> hops_of(const Mask& mask, Index length, int rank, int ranks, Host::Memory& memory) {
  const SequenceSplit<Split> split(length, ranks);
  std::vector<LocalRows<Split>> blocks;
  for (int hop = 0; hop < ranks; ++hop) blocks.push_back(split.rows_of((rank - hop + ranks) % ranks));
  return {Host::Stream(), memory, mask.of(length, length), blocks};
}

TEST(HopRanges, AreARectangleOnAllHopsOfACausalRingButTheFirst) {
  Host::Memory memory;
  constexpr int ranks = 4;
  for (int rank = 0; rank < ranks; ++rank) {
    // Parts of 5: a rank's earlier one comes before all that other ranks' later ones have.
    const auto zigzag = hops_of<Zigzag>(mask::causal(), 40, rank, ranks, memory);
    const auto contiguous = hops_of<Contiguous>(mask::causal(), 40, rank, ranks, memory);
    EXPECT_FALSE(zigzag.of(0).rectangle || contiguous.of(0).rectangle);
    for (int hop = 1; hop < ranks; ++hop) {
      const bool earlier = (rank - hop + ranks) % ranks < rank;
      ASSERT_TRUE(zigzag.of(hop).rectangle && contiguous.of(hop).rectangle);
      EXPECT_EQ(*zigzag.of(hop).rectangle,
                (earlier ? ops::SeenRectangle{0, 10, 0, 5} : ops::SeenRectangle{5, 10, 0, 10}));
      EXPECT_EQ(*contiguous.of(hop).rectangle,
                (earlier ? ops::SeenRectangle{0, 10, 0, 10} : ops::SeenRectangle{}));
      EXPECT_EQ(zigzag.scores(hop), 50);
    }
  }
}

TEST(HopRanges, AreARectangleWithoutAMask) {
  Host::Memory memory;
  const auto hops = hops_of<Striped>(mask::full(), 24, 1, 3, memory);
  for (int hop = 0; hop < 3; ++hop) {
    ASSERT_TRUE(hops.of(hop).rectangle);
    EXPECT_EQ(*hops.of(hop).rectangle, (ops::SeenRectangle{0, 8, 0, 8}));
  }
}

}  // namespace
}  // namespace trilith::test
