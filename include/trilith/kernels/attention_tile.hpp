// How a pass of attention is cut into tiles.
#pragma once

#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/hop_mask.hpp>

namespace trilith::inline v0::kernels {

struct AttentionTile {
  HopMask mask;
  int rows;     // queries of a block
  int columns;  // keys of a tile
  int width;    // of queries, keys and values: the dimension, rounded up to 64, 128 or 256
  int warps;    // each takes rows / warps queries
  int stages;   // tiles of keys or values that are in shared memory at once

  friend constexpr bool operator==(const AttentionTile&, const AttentionTile&) = default;

  constexpr int threads() const { return 32 * warps; }
  // Of queries, of the stages, and of the intervals that queries see.
  constexpr int shared_bytes() const { return 2 * width * (rows + stages * columns) + 8 * rows; }
};

// Tiles of the forward pass. A warp has 32 queries, so that a fragment of keys or values serves 4 mma, or 16
// where the output of 32 would not fit in the 255 registers of a lane; the scores of `columns` keys fit
// beside it. A mask of intervals cuts tiles, and the narrower they are, the less of them is computed in vain;
// a rectangle has them as wide as registers allow. Two blocks share a multiprocessor, at width 256 one has
// it: where shared memory is too small for that, intervals have fewer queries a block, since that leaves out
// more, and a rectangle fewer keys a tile, since that loads keys less often. Stages, 2 to 4, take what shared
// memory is left.
constexpr AttentionTile attention_forward_tile(int sm, int width, HopMask mask) {
  const int all = shared_kib_of_multiprocessor(sm) * 1024;
  const int blocks = width == 256 ? 1 : 2;
  const auto fits = [&](const AttentionTile& tile) { return blocks * (tile.shared_bytes() + 1024) <= all; };
  const bool cut = mask == HopMask::intervals;
  AttentionTile tile{.mask = mask, .rows = 128, .columns = 64, .width = width, .warps = 4, .stages = 2};
  if (width == 64) tile.columns = cut ? 96 : 128;
  if (width == 256) tile.warps = 8;
  if (!fits(tile)) {
    if (cut) {
      tile.rows = 64;
      tile.warps = 4;
    } else {
      tile.columns = 32;
    }
  }
  for (AttentionTile more = tile; more.stages < 4;) {
    ++more.stages;
    if (fits(more)) tile = more;
  }
  return tile;
}

}  // namespace trilith::inline v0::kernels
