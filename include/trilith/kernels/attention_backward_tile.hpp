// How the backward kernels of attention cut their work.
#pragma once

#include <trilith/kernels/architecture.hpp>

namespace trilith::inline v0::kernels {

// A block holds a tile of `rows` (keys for dk and dv, queries for dq) and steps over tiles of `columns`
// (queries, or keys). A warp has rows / row_warps of the rows; of a tile of scores it computes columns /
// column_warps columns, and of the gradients width / column_warps. Where column_warps is 1, weights stay in
// registers for the products that take them; else they go through shared memory.
struct AttentionBackwardTile {
  int width;  // of a head: its dimension, rounded up to 64, 128 or 256
  int rows;
  int columns;
  int row_warps;
  int column_warps;
  int stages;  // tiles of columns that shared memory holds

  friend constexpr bool operator==(const AttentionBackwardTile&, const AttentionBackwardTile&) = default;

  constexpr int threads() const { return 32 * row_warps * column_warps; }
  constexpr int warp_rows() const { return rows / row_warps; }
  constexpr int warp_columns() const { return columns / column_warps; }
  constexpr int warp_width() const { return width / column_warps; }
  constexpr bool exchanges() const { return column_warps > 1; }

  // Of two tiles of rows, two of columns a stage, and `exchanged` tiles of scores.
  constexpr int tile_bytes(int exchanged) const {
    return 2 *
           (2 * rows * width + 2 * stages * columns * width + (exchanges() ? exchanged * rows * columns : 0));
  }
};

// For dk and dv. A warp has 32 keys, so that a fragment of queries serves 4 mma, and 128 registers a lane
// hold their gradients.
constexpr AttentionBackwardTile attention_backward_keys_tile(int architecture, int width) {
  if (width == 64) {
    return {.width = 64, .rows = 128, .columns = 32, .row_warps = 4, .column_warps = 1, .stages = 2};
  }
  if (width == 128) {
    return {.width = 128, .rows = 128, .columns = 64, .row_warps = 4, .column_warps = 2, .stages = 2};
  }
  const bool two_stages = shared_kib_of_multiprocessor(architecture) >= 228;
  return {.width = 256,
          .rows = 64,
          .columns = 64,
          .row_warps = 2,
          .column_warps = 4,
          .stages = two_stages ? 2 : 1};
}

// For dq.
constexpr AttentionBackwardTile attention_backward_queries_tile(int architecture, int width) {
  if (width == 64) {
    return {.width = 64, .rows = 128, .columns = 64, .row_warps = 4, .column_warps = 1, .stages = 2};
  }
  if (width == 128) {
    return {.width = 128, .rows = 128, .columns = 64, .row_warps = 4, .column_warps = 2, .stages = 2};
  }
  const bool two_stages = shared_kib_of_multiprocessor(architecture) >= 228;
  return {.width = 256,
          .rows = 64,
          .columns = 64,
          .row_warps = 2,
          .column_warps = 4,
          .stages = two_stages ? 2 : 1};
}

}  // namespace trilith::inline v0::kernels
