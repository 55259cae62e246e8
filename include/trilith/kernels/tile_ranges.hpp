// Which keys the queries of a tile see, all together and each of them: what tells an attention kernel which
// tiles of keys to visit, and which of those need no mask.
#pragma once

#include <cstdint>
#include <limits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Query i sees the keys from first(i) up to, but not including, last(i). Among the queries that see any,
// neither falls as i rises.
struct KeyRanges {
  simt::Global<const std::int32_t> first;  // (queries)
  simt::Global<const std::int32_t> last;   // (queries)
};

// Intervals of keys, empty where first ≥ last.
struct TileRange {
  std::int32_t first;  // keys that some query sees, with what may lie between them
  std::int32_t last;
  std::int32_t all_first;  // keys that every query sees
  std::int32_t all_last;

  TRILITH_DEVICE bool empty() const { return first >= last; }
};

// Of the queries [first_query, last_query), at least one. Taken by a warp together; every lane gets it.
template <simt::lane Lane>
TRILITH_DEVICE TileRange tile_range(Lane& lane, const KeyRanges& ranges, int first_query, int last_query) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  TileRange range{most, 0, 0, most};
  for (int query = first_query + lane.index(); query < last_query; query += simt::warp_size) {
    const std::int32_t first = lane.load(ranges.first, query);
    const std::int32_t last = lane.load(ranges.last, query);
    if (first < last) {
      range.first = first < range.first ? first : range.first;
      range.last = last > range.last ? last : range.last;
    }
    range.all_first = first > range.all_first ? first : range.all_first;
    range.all_last = last < range.all_last ? last : range.all_last;
  }
  return {uniform(lane, warp_reduce(lane, range.first, Minimum{})),
          uniform(lane, warp_reduce(lane, range.last, Maximum{})),
          uniform(lane, warp_reduce(lane, range.all_first, Maximum{})),
          uniform(lane, warp_reduce(lane, range.all_last, Minimum{}))};
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
    simt::Global<std::int32_t> tiles;  // (tiles, 4): first, last, all_first, all_last
    int queries;
    int rows;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const int tile = lane.block().x * tiles_per_block + lane.warp();
    const int first = tile * p.rows;
    if (first >= p.queries) return;
    const int last = p.rows < p.queries - first ? first + p.rows : p.queries;
    const TileRange range = tile_range(lane, p.ranges, first, last);
    if (lane.index() != 0) return;
    lane.store(p.tiles, Index{tile} * 4,
               simt::Pack<std::int32_t, 4>{{range.first, range.last, range.all_first, range.all_last}});
  }
};

}  // namespace trilith::inline v0::kernels
