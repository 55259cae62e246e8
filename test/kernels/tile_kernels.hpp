// Kernels that take a tile in and out of shared memory by every way there is.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::test {

enum class Read { a, a_transposed, b, b_transposed, rows };

// to = the tile of `from` that begins with `first_row`, read as `how` says: as fragments, each of whose
// elements goes where it lies in the tile, or row by row.
template <half T, int Rows, int Columns, Read how>
struct TileRead {
  static constexpr const char* name = "tile_read";
  static constexpr int threads = 128;
  static constexpr int warps = threads / simt::warp_size;
  using Tile = kernels::SharedTile<T, Rows, Columns>;
  static constexpr int shared_bytes = Tile::bytes;
  struct Params {
    kernels::StridedRows<const T> from;
    kernels::StridedRows<T> to;
    int first_row;
    int rows;
    int columns;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Tile tile{lane.shared(typename Tile::Storage{})};
    kernels::copy_tile<threads>(lane, tile, p.from, p.first_row, p.rows, p.columns);
    lane.commit_copies();
    lane.wait_copies(simt::Pending<0>{});
    lane.barrier();
    if constexpr (how == Read::rows) {
      constexpr int share = Rows / warps;
      kernels::store_rows<share>(lane, tile, lane.warp() * share, p.to, lane.warp() * share, Rows, Columns);
      return;
    }
    for (int row = lane.warp() * 16; row < Rows; row += warps * 16) {
      for (int column = 0; column < Columns; column += 16) {
        if constexpr (how == Read::a)
          put_a(lane, p, kernels::load_a(lane, tile, row, column), row, column, false);
        if constexpr (how == Read::a_transposed) {
          put_a(lane, p, kernels::load_a_transposed(lane, tile, column, row), row, column, true);
        }
        if constexpr (how == Read::b)
          put_b(lane, p, kernels::load_b(lane, tile, column, row), row, column, true);
        if constexpr (how == Read::b_transposed) {
          put_b(lane, p, kernels::load_b_transposed(lane, tile, row, column), row, column, false);
        }
      }
    }
  }

 private:
  template <class Lane>
  static TRILITH_DEVICE void put(Lane& lane, const Params& p, int row, int column, simt::Position at,
                                 bool transposed, float value) {
    const Index y = row + (transposed ? at.column : at.row);
    const int x = column + (transposed ? at.row : at.column);
    lane.store(p.to.elements, y * p.to.stride + x, T(value));
  }
  template <class Lane>
  static TRILITH_DEVICE void put_a(Lane& lane, const Params& p, const simt::FragmentA<T>& a, int row,
                                   int column, bool transposed) {
    for (int i = 0; i < 8; ++i) {
      put(lane, p, row, column, simt::position_in_a(lane.index(), i), transposed, a[i]);
    }
  }
  template <class Lane>
  static TRILITH_DEVICE void put_b(Lane& lane, const Params& p, const kernels::FragmentsB<T>& b, int row,
                                   int column, bool transposed) {
    for (int block = 0; block < 2; ++block) {
      for (int i = 0; i < 4; ++i) {
        simt::Position at = simt::position_in_b(lane.index(), i);
        at.column += 8 * block;
        put(lane, p, row, column, at, transposed, b[block][i]);
      }
    }
  }
};

// to (Rows, Columns) = accumulators whose element (row, column) is row + column / 256.
template <half T, int Rows, int Columns>
struct TileWrite {
  static constexpr const char* name = "tile_write";
  static constexpr int threads = 32;
  using Tile = kernels::SharedTile<T, Rows, Columns>;
  static constexpr int shared_bytes = Tile::bytes;
  struct Params {
    kernels::StridedRows<T> to;
    int rows;
    int columns;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Tile tile{lane.shared(typename Tile::Storage{})};
    for (int row = 0; row < Rows; row += 16) {
      for (int column = 0; column < Columns; column += 8) {
        simt::Accumulator values;
        for (int i = 0; i < 4; ++i) {
          const simt::Position at = simt::position_in_accumulator(lane.index(), i);
          values[i] = static_cast<float>(row + at.row) + static_cast<float>(column + at.column) / 256;
        }
        kernels::store_accumulator(lane, tile, row, column, values);
      }
    }
    lane.sync_warp();
    kernels::store_rows<Rows>(lane, tile, 0, p.to, 0, p.rows, p.columns);
  }
};

}  // namespace trilith::test
