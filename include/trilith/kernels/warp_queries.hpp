// What the queries of a warp see of the tiles of keys that pass by. It lies in shared memory: asked for twice
// a tile, it takes no registers between.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/hop_mask.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Of a block's `rows` queries a warp has `warp_rows`, 32 at most.
template <HopMask mask, int rows, int warp_rows>
class WarpQueries {
 public:
  static_assert(warp_rows <= simt::warp_size, "WarpQueries: a lane must have one query at most");

  // Those from `first` on. Nothing is seen by what is beyond the `queries` that there are.
  template <simt::lane Lane>
  TRILITH_DEVICE WarpQueries(Lane& lane, const VisiblePairs<mask>& visible, int first, int queries)
      : intervals_(lane.shared(simt::Array<std::int32_t, 2 * rows>{})) {
    if (lane.index() < warp_rows) {
      Interval seen;
      if (first + lane.index() < queries) seen = visible.seen_by(lane, first + lane.index());
      lane.store(intervals_, place_of(lane, lane.index()),
                 simt::Pack<std::int32_t, 2>{{seen.first, seen.last}});
    }
    lane.sync_warp();
  }

  // By the warp's query `own`.
  template <simt::lane Lane>
  TRILITH_DEVICE Interval seen_by(Lane& lane, int own) const {
    const auto seen = lane.load(intervals_, place_of(lane, own), simt::Width<2>{});
    return {seen[0], seen[1]};
  }

  // Of the keys [first, last).
  template <simt::lane Lane>
  TRILITH_DEVICE TileSight sight(Lane& lane, int first, int last) const {
    const Interval seen = seen_by(lane, lane.index() % warp_rows);
    return {lane.any(seen.meets(first, last)), lane.all(seen.covers(first, last))};
  }

 private:
  template <class Lane>
  static TRILITH_DEVICE int place_of(const Lane& lane, int own) {
    return 2 * (lane.warp() * warp_rows + own);
  }

  simt::Shared<std::int32_t> intervals_;
};

}  // namespace trilith::inline v0::kernels
