// The ranges of tiles against what their queries see, one by one.

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

// Every third query of `some_empty` sees nothing, and its interval says so in several ways.
void expect_ranges(const Mask& mask, int queries, int keys, int rows, bool some_empty) {
  SCOPED_TRACE(testing::Message() << queries << " queries, " << keys << " keys, tiles of " << rows);
  const BoundMask bound = mask.of(queries, keys);
  Buffer<std::int32_t> first(queries), last(queries);
  for (int i = 0; i < queries; ++i) {
    first[i] = static_cast<std::int32_t>(bound.keys_of(i).first);
    last[i] = static_cast<std::int32_t>(bound.keys_of(i).last);
    if (some_empty && i % 3 == 1) {
      first[i] = i % 2 == 0 ? keys : 0;
      last[i] = 0;
    }
  }
  const int tiles = ceil_divide(queries, rows);
  Buffer<std::int32_t> table(tiles * 2, -7);
  simt::Emulator emulator({.seed = 2});
  emulator.launch(kernels::TileRanges{}, {.x = ceil_divide(tiles, kernels::TileRanges::tiles_per_block)},
                  {{first.view(), last.view()}, table.view(), queries, rows});
  for (int tile = 0; tile < tiles; ++tile) {
    int least = keys, most = -1;
    for (int key = 0; key < keys; ++key) {
      bool some = false;
      for (int i = tile * rows; i < queries && i < (tile + 1) * rows; ++i) {
        some |= first[i] <= key && key < last[i];
      }
      if (some) least = std::min(least, key), most = std::max(most, key);
    }
    for (int key = 0; key < keys; ++key) {
      const bool inside = table[2 * tile] <= key && key < table[2 * tile + 1];
      ASSERT_EQ(inside, least <= key && key <= most) << "tile " << tile << ", key " << key;
    }
  }
}

// Every interval against each of its keys.
TEST(Interval, MeetAndCoverWhatTheirKeysSay) {
  for (int first = 0; first < 7; ++first) {
    for (int last = 0; last < 7; ++last) {
      const kernels::Interval seen{first, last};
      for (int begin = 0; begin < 7; ++begin) {
        for (int end = begin + 1; end < 7; ++end) {
          bool some = false;
          bool all = true;
          for (int key = begin; key < end; ++key) {
            EXPECT_EQ(seen.has(key), first <= key && key < last);
            some |= seen.has(key);
            all &= seen.has(key);
          }
          EXPECT_EQ(seen.meets(begin, end), some) << first << ", " << last << ": " << begin << ", " << end;
          EXPECT_EQ(seen.covers(begin, end), all) << first << ", " << last << ": " << begin << ", " << end;
        }
      }
    }
  }
}

TEST(TileRanges, AreWhatSomeQueriesSee) {
  for (const bool some_empty : {false, true}) {
    for (const int rows : {64, 128}) {
      expect_ranges(mask::full(), 130, 70, rows, some_empty);
      expect_ranges(mask::causal(), 512, 512, rows, some_empty);
      expect_ranges(mask::causal(), 200, 76, rows, some_empty);  // the first rows see nothing
      expect_ranges(mask::sliding_window(90), 700, 700, rows, some_empty);
      expect_ranges(mask::documents({0, 100, 101, 300}), 300, 300, rows, some_empty);
      expect_ranges(mask::full(), 1, 1, rows, some_empty);
    }
  }
}

}  // namespace
}  // namespace trilith::test
