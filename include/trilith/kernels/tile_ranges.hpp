// Which keys queries see, each of them, those of a tile and those of a warp: what tells an attention kernel
// which tiles of keys to visit, which of those to skip, and which need no mask.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/hop_mask.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Of keys or of queries: [first, last), none where first ≥ last.
struct Interval {
  std::int32_t first = 0;
  std::int32_t last = 0;

  TRILITH_DEVICE bool empty() const { return first >= last; }
  // Without a branch.
  TRILITH_DEVICE bool has(std::int32_t x) const {
    return (static_cast<int>(first <= x) & static_cast<int>(x < last)) != 0;
  }
  // Whether it has some of [begin, end), and whether it has all, which is one at least.
  TRILITH_DEVICE bool meets(std::int32_t begin, std::int32_t end) const {
    return (first > begin ? first : begin) < (last < end ? last : end);
  }
  TRILITH_DEVICE bool covers(std::int32_t begin, std::int32_t end) const {
    return first <= begin && last >= end;
  }
};

// What queries, such as those of a warp, see of a tile of keys.
struct TileSight {
  bool some;  // one of the queries sees one of the keys
  bool all;   // all see all
};

// Query i sees the keys from first(i) up to, but not including, last(i). Among the queries that see any,
// neither falls as i rises.
struct KeyRanges {
  simt::Global<const std::int32_t> first;  // (queries)
  simt::Global<const std::int32_t> last;   // (queries)

  template <simt::lane Lane>
  TRILITH_DEVICE Interval seen_by(Lane& lane, int query) const {
    return {lane.load(first, query), lane.load(last, query)};
  }
};

// Each of `queries` sees all of `keys`, and no other query sees any.
struct SeenRectangle {
  Interval queries;
  Interval keys;

  template <simt::lane Lane>
  TRILITH_DEVICE Interval seen_by(const Lane& /*lane*/, int query) const {
    return queries.has(query) ? keys : Interval{};
  }
};

// The pairs of queries and keys that a hop leaves visible.
template <HopMask mask>
using VisiblePairs = std::conditional_t<mask == HopMask::rectangle, SeenRectangle, KeyRanges>;

// The keys that one of the queries [first_query, last_query) sees, with what may lie between them. Of one
// query at least, taken by a warp together; every lane gets it.
template <simt::lane Lane>
TRILITH_DEVICE Interval tile_range(Lane& lane, const KeyRanges& ranges, int first_query, int last_query) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  Interval range{most, 0};
  for (int query = first_query + lane.index(); query < last_query; query += simt::warp_size) {
    const Interval seen = ranges.seen_by(lane, query);
    if (!seen.empty()) {
      range.first = seen.first < range.first ? seen.first : range.first;
      range.last = seen.last > range.last ? seen.last : range.last;
    }
  }
  return {uniform(lane, warp_reduce(lane, range.first, Minimum{})),
          uniform(lane, warp_reduce(lane, range.last, Maximum{}))};
}
template <simt::lane Lane>
TRILITH_DEVICE Interval tile_range(const Lane& /*lane*/, const SeenRectangle& rectangle, int first_query,
                                   int last_query) {
  return rectangle.queries.meets(first_query, last_query) ? rectangle.keys : Interval{};
}

// The ranges of all tiles of `rows` queries. Each warp takes one.
struct TileRanges {
  static constexpr const char* name = "tile_ranges";
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_multiprocessor = 8;
  static constexpr int tiles_per_block = threads / simt::warp_size;

  struct Params {
    KeyRanges ranges;
    simt::Global<std::int32_t> tiles;  // (tiles, 2): first, last
    int queries;
    int rows;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const int tile = lane.block().x * tiles_per_block + lane.warp();
    const int first = tile * p.rows;
    if (first >= p.queries) return;
    const int last = p.rows < p.queries - first ? first + p.rows : p.queries;
    const Interval range = tile_range(lane, p.ranges, first, last);
    if (lane.index() != 0) return;
    lane.store(p.tiles, Index{tile} * 2, simt::Pack<std::int32_t, 2>{{range.first, range.last}});
  }
};

}  // namespace trilith::inline v0::kernels
