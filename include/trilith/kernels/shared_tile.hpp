// A tile of 16-bit elements in shared memory: how it is filled from global memory, and the fragments that mma
// takes from it.
//
// A row is made of chunks of 8 elements, 16 bytes. Chunk c of row r lies where chunk c XOR (r mod 8) would.
// So neither 8 chunks in turn of one row, which copies and vector stores touch together, nor those of one
// column in 8 rows, which ldmatrix reads, have two in a bank.
#pragma once

#include <bit>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <half T, int Rows, int Columns>
struct SharedTile {
  static_assert(Rows % 8 == 0 && Columns % 64 == 0 && (Columns & (Columns - 1)) == 0,
                "SharedTile<T, Rows, Columns>: Rows must be a multiple of 8, Columns a power of two from 64 "
                "on: the swizzle permutes 8 chunks of 8 elements");

  static constexpr int rows = Rows;
  static constexpr int columns = Columns;
  static constexpr int size = Rows * Columns;
  static constexpr int bytes = size * 2;
  using Storage = simt::Array<T, size>;

  simt::Shared<T> elements;
  int begin = 0;  // of the tile in `elements`, a multiple of 64

  // Where element (row, column) lies in `elements`, and the rest of its chunk after it.
  TRILITH_DEVICE int index(int row, int column) const {
    return begin + row * Columns + (column ^ row % 8 * 8);
  }

  // The index of (row, column + columns) from that of (row, column), where the two have no bit in common, and
  // column is below 64. So addresses of a warp's fragments differ by 4 values of XOR, and by constants.
  static TRILITH_DEVICE int moved(int index, int columns) {
    return (index ^ columns % 64) + columns / 64 * 64;
  }
};

// Starts copying rows first_row on of `from` into the tile; what lies beyond row `rows` or column `columns`
// of the source becomes 0. `columns` is a multiple of 8. All `Threads` threads of the block take part; commit
// and wait are left to them. Written so that no address of a copy is kept in a register from tile to tile.
template <int Threads, simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE void copy_tile(Lane& lane, const SharedTile<T, Rows, Columns>& to,
                              const StridedRows<const T>& from, int first_row, int rows, int columns) {
  constexpr int chunks = Columns / 8;  // of a row
  constexpr int step = Threads / chunks;
  static_assert(Threads % chunks == 0 && Rows % step == 0,
                "copy_tile: the threads must take whole rows, in equal shares");
  const int column = lane.thread() % chunks * 8;
  const int row = lane.thread() / chunks;
  const int present = column < columns ? rows - first_row - row : 0;
  const int own = to.index(row, column);
  const simt::Global<const T> own_rows = from.elements.from(row * from.stride + column);
  Index at = first_row * from.stride;
  TRILITH_UNROLL
  for (int i = 0; i < Rows; i += step, at += step * from.stride) {
    lane.copy_async_or_zero(to.elements, i * Columns + (own ^ i % 8 * 8), own_rows, at, i < present);
  }
}

namespace detail {

// Where the row of 8 lies whose address a lane gives, in the first (16, 16) of a tile. All fragments are
// loaded from these addresses, so that a warp has the same 4 values of XOR for each tile. Of the 4 matrices,
// the second lies below the first.
template <simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE int own_chunk(const Lane& lane, const SharedTile<T, Rows, Columns>& tile) {
  return tile.index(lane.index() % 16, lane.index() / 16 * 8);
}

// The second beside the first.
template <half T>
TRILITH_DEVICE simt::Pairs<T, 4> by_columns(const simt::Pairs<T, 4>& x) {
  return {{x.x[0], x.x[2], x.x[1], x.x[3]}};
}

}  // namespace detail

// The fragments of rows and columns from (row, k), (row, column) or (k, column) on, multiples of 16 all of
// them.

// (16, 16) of a tile (row, k).
template <simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE simt::FragmentA<T> load_a(Lane& lane, const SharedTile<T, Rows, Columns>& tile, int row,
                                         int k) {
  return lane.ldmatrix(tile.elements, row * Columns + tile.moved(detail::own_chunk(lane, tile), k),
                       simt::Matrices<4>{});
}

// (16, 16), the transpose of what lies in a tile (k, row).
template <simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE simt::FragmentA<T> load_a_transposed(Lane& lane, const SharedTile<T, Rows, Columns>& tile,
                                                    int row, int k) {
  return detail::by_columns(lane.ldmatrix_transposed(
      tile.elements, k * Columns + tile.moved(detail::own_chunk(lane, tile), row), simt::Matrices<4>{}));
}

// Two fragments of B, (16, 8) each, `column` and `column` + 8 on.
template <half T>
struct FragmentsB {
  simt::Pairs<T, 4> pairs;

  TRILITH_DEVICE simt::FragmentB<T> operator[](int i) const { return pairs.template part<2>(2 * i); }
};

// (16, 16), the transpose of what lies in a tile (column, k).
template <simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE FragmentsB<T> load_b(Lane& lane, const SharedTile<T, Rows, Columns>& tile, int k, int column) {
  return {detail::by_columns(lane.ldmatrix(
      tile.elements, column * Columns + tile.moved(detail::own_chunk(lane, tile), k), simt::Matrices<4>{}))};
}

// (16, 16) of a tile (k, column).
template <simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE FragmentsB<T> load_b_transposed(Lane& lane, const SharedTile<T, Rows, Columns>& tile, int k,
                                               int column) {
  return {lane.ldmatrix_transposed(
      tile.elements, k * Columns + tile.moved(detail::own_chunk(lane, tile), column), simt::Matrices<4>{})};
}

// An accumulator, rounded, whose element (0, 0) goes to (row, column).
template <simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE void store_accumulator(Lane& lane, const SharedTile<T, Rows, Columns>& tile, int row,
                                      int column, const simt::Accumulator& values) {
  const int own = tile.index(lane.index() / 4, lane.index() % 4 * 2);
  TRILITH_UNROLL
  for (int i = 0; i < 2; ++i) {
    lane.store(tile.elements, (row + 8 * i) * Columns + tile.moved(own, column),
               std::bit_cast<simt::Pack<T, 2>>(pack_pair<T>(values[2 * i], values[2 * i + 1])));
  }
}

// Stores `Count` rows of the tile from `row` on, by one warp, to rows first_row on of `to`, but not beyond
// its row `rows` and column `columns`, a multiple of 8.
template <int Count, simt::lane Lane, half T, int Rows, int Columns>
TRILITH_DEVICE void store_rows(Lane& lane, const SharedTile<T, Rows, Columns>& tile, int row,
                               const StridedRows<T>& to, int first_row, int rows, int columns) {
  constexpr int chunks = Columns / 8;
  constexpr int step = simt::warp_size / chunks;
  static_assert(Count % step == 0, "store_rows: a warp must take whole rows, in equal shares");
  const int column = lane.index() % chunks * 8;
  const int own = lane.index() / chunks;
  const int present = column < columns ? rows - first_row - own : 0;
  const Index begin = (first_row + own) * to.stride + column;
  TRILITH_UNROLL
  for (int i = 0; i < Count; i += step) {
    if (i >= present) continue;
    lane.store(to.elements, begin + i * to.stride,
               lane.load(tile.elements, tile.index(row + own + i, column), simt::Width<8>{}));
  }
}

}  // namespace trilith::inline v0::kernels
