// What a warp has of a matrix in float32, and the products that add to it.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// (Blocks × 16, Columns)
template <int Blocks, int Columns>
struct Accumulators {
  static constexpr int blocks = Blocks;
  static constexpr int columns = Columns;

  simt::Accumulator x[Blocks][Columns / 8];

  TRILITH_DEVICE void clear() {
    TRILITH_UNROLL
    for (int b = 0; b < Blocks; ++b) {
      TRILITH_UNROLL
      for (int n = 0; n < Columns / 8; ++n) x[b][n] = {};
    }
  }

  // Columns `column` to `column` + 16 of block b, rounded, as A of a product.
  template <half T>
  TRILITH_DEVICE simt::FragmentA<T> as_a(int b, int column) const {
    const simt::Accumulator& low = x[b][column / 8];
    const simt::Accumulator& high = x[b][column / 8 + 1];
    return {pack_pair<T>(low[0], low[1]), pack_pair<T>(low[2], low[3]), pack_pair<T>(high[0], high[1]),
            pack_pair<T>(high[2], high[3])};
  }

  // Rounded into a tile, (0, 0) at (row, column).
  template <simt::lane Lane, class Tile>
  TRILITH_DEVICE void store(Lane& lane, const Tile& tile, int row, int column) const {
    TRILITH_UNROLL
    for (int b = 0; b < Blocks; ++b) {
      TRILITH_UNROLL
      for (int n = 0; n < Columns / 8; ++n)
        store_accumulator(lane, tile, row + 16 * b, column + 8 * n, x[b][n]);
    }
  }
};

// c += a · b, where a_of(block, k) gives the fragments of a, and b_of(k, column) those of b.
template <int Depth, simt::lane Lane, int Blocks, int Columns, class A, class B>
TRILITH_DEVICE void multiply(Lane& lane, Accumulators<Blocks, Columns>& c, A&& a_of, B&& b_of) {
  TRILITH_UNROLL
  for (int k = 0; k < Depth; k += 16) {
    decltype(a_of(0, k)) a[Blocks];
    TRILITH_UNROLL
    for (int block = 0; block < Blocks; ++block) a[block] = a_of(block, k);
    TRILITH_UNROLL
    for (int column = 0; column < Columns; column += 16) {
      const auto b = b_of(k, column);
      TRILITH_UNROLL
      for (int block = 0; block < Blocks; ++block) {
        lane.mma(c.x[block][column / 8], a[block], b[0]);
        lane.mma(c.x[block][column / 8 + 1], a[block], b[1]);
      }
    }
  }
}

}  // namespace trilith::inline v0::kernels
