// How the backward kernels of attention cut their work.
#pragma once

#include <trilith/core/rounding.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/hop_mask.hpp>

namespace trilith::inline v0::kernels {

// A block holds a tile of `rows` (keys for dk and dv, queries for dq) and steps over tiles of `columns`
// (queries, or keys). A warp has rows / row_warps of the rows; of a tile of scores it computes columns /
// column_warps columns, and of the gradients width / column_warps. Where column_warps is 1, weights stay in
// registers for the products that take them; else they go through shared memory.
struct AttentionBackwardTile {
  HopMask mask;  // as the kernel is told it
  int width;     // of a head: its dimension, rounded up to 64, 128 or 256
  int rows;
  int columns;
  int row_warps;
  int column_warps;
  int strip;             // columns of a warp's scores whose gradients are in registers at once
  int stages;            // tiles of columns that shared memory holds, 1 or 2
  bool adds_dq = false;  // of keys: whether blocks add to dq, in any order

  friend constexpr bool operator==(const AttentionBackwardTile&, const AttentionBackwardTile&) = default;

  constexpr int threads() const { return 32 * row_warps * column_warps; }
  constexpr int warp_rows() const { return rows / row_warps; }
  constexpr int warp_columns() const { return columns / column_warps; }
  constexpr int warp_width() const { return width / column_warps; }
  constexpr bool exchanges() const { return column_warps > 1; }

  // Two tiles of rows, two of columns a stage, tiles of scores, and 4 arrays of a number for each of
  // `queries`, which begin at multiples of 128 bytes. A row of a tile of scores has 64 at least.
  constexpr int shared_bytes(int score_tiles, int queries) const {
    const int scores = score_tiles * rows * (columns < 64 ? 64 : columns);
    return 2 * (2 * rows * width + 2 * stages * columns * width + scores) + 4 * round_up(4 * queries, 128);
  }
  // For dk and dv weights and their gradients are exchanged, and there are the queries of two steps.
  constexpr int keys_shared_bytes() const {
    return shared_bytes(exchanges() ? 2 : (adds_dq ? 1 : 0), 2 * columns);
  }
  // For dq gradients alone.
  constexpr int queries_shared_bytes() const { return shared_bytes(exchanges() ? 1 : 0, rows); }

  // The least change that needs less shared memory.
  constexpr AttentionBackwardTile smaller() const {
    AttentionBackwardTile tile = *this;
    if (stages > 1) {
      tile.stages = 1;
    } else {
      tile.rows /= 2;
      if (row_warps > 1) tile.row_warps /= 2;
    }
    return tile;
  }
};

namespace detail {

constexpr int most_shared_bytes(int sm) {
  return (shared_kib_of_multiprocessor(sm) - 1) * 1024;
}

}  // namespace detail

// For dk and dv. A warp has 32 keys, so that a fragment of queries serves 4 mma, and 128 registers a lane
// hold its gradients. At width 64 a step takes 32 queries where a mask of intervals cuts tiles, so that less
// is computed in vain, and where with 64 two blocks would not share a multiprocessor.
constexpr AttentionBackwardTile attention_backward_keys_tile(int sm, int width, HopMask mask,
                                                             bool adds_dq = false) {
  AttentionBackwardTile tile{.mask = mask,
                             .width = width,
                             .rows = width == 256 ? 64 : 128,
                             .columns = 64,
                             .row_warps = width == 256 ? 2 : 4,
                             .column_warps = width / 64,
                             .strip = width == 128 ? 32 : 16,
                             .stages = 2,
                             .adds_dq = adds_dq};
  const bool two_fit = 2 * (tile.keys_shared_bytes() + 1024) <= shared_kib_of_multiprocessor(sm) * 1024;
  if (width == 64 && (mask == HopMask::intervals || !two_fit)) tile.columns = 32;
  while (tile.keys_shared_bytes() > detail::most_shared_bytes(sm)) tile = tile.smaller();
  return tile;
}

// For dq. A warp has 32 queries. No mask wants another tile, so a rectangle comes as intervals, and kernels
// are half as many.
constexpr AttentionBackwardTile attention_backward_queries_tile(int sm, int width) {
  AttentionBackwardTile tile{.mask = HopMask::intervals,
                             .width = width,
                             .rows = width == 256 ? 64 : 128,
                             .columns = 64,
                             .row_warps = width == 256 ? 2 : 4,
                             .column_warps = width / 64,
                             .strip = width == 256 ? 16 : 32,
                             .stages = 2};
  while (tile.queries_shared_bytes() > detail::most_shared_bytes(sm)) tile = tile.smaller();
  return tile;
}

}  // namespace trilith::inline v0::kernels
