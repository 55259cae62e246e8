// How gradients leave a warp's registers: through shared memory, so that lanes write 16 bytes each, side by
// side.
#pragma once

#include <bit>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/accumulators.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Where a warp's gradients go: rows first_row on and columns first_column on of a matrix. What lies beyond
// `rows` or `columns` is not touched.
template <class T>
struct GradientRows {
  StridedRows<T> matrix;
  int first_row;
  int first_column;
  int rows;
  int columns;  // a multiple of 8

  TRILITH_DEVICE bool has(int row, int column) const {
    return first_row + row < rows && first_column + column < columns;
  }
  TRILITH_DEVICE Index index(int row, int column) const {
    return (first_row + row) * matrix.stride + first_column + column;
  }
};

// A warp's (Rows, Columns) gradients in float, in shared memory that is the warp's own. Chunks of 4 floats
// are swizzled in pairs, which a quad writes: XOR the row mod 4.
template <int Rows, int Columns>
struct GradientRoom {
  simt::Shared<float> floats;

  // factor · values.
  template <simt::lane Lane>
  TRILITH_DEVICE void put(Lane& lane, const Accumulators<Rows / 16, Columns>& values, float factor) const {
    const int own = index(lane.index() / 4, lane.index() % 4 * 2);
    lane.sync_warp();  // what was here has been read
    TRILITH_UNROLL
    for (int b = 0; b < Rows / 16; ++b) {
      TRILITH_UNROLL
      for (int n = 0; n < Columns / 8; ++n) {
        TRILITH_UNROLL
        for (int i = 0; i < 2; ++i) {
          const simt::Accumulator& x = values.x[b][n];
          lane.store(floats, (16 * b + 8 * i) * Columns + (own ^ 8 * n),
                     simt::Pack<float, 2>{{factor * x[2 * i], factor * x[2 * i + 1]}});
        }
      }
    }
    lane.sync_warp();
  }

  // Adds what lies in memory.
  template <simt::lane Lane>
  TRILITH_DEVICE void add(Lane& lane, const GradientRows<float>& from) const {
    each<4>(lane, [&](int row, int column) {
      if (!from.has(row, column)) return;
      auto sum = lane.load(floats, index(row, column), simt::Width<4>{});
      const auto more = lane.load(from.matrix.elements, from.index(row, column), simt::Width<4>{});
      TRILITH_UNROLL
      for (int i = 0; i < 4; ++i) sum[i] += more[i];
      lane.store(floats, index(row, column), sum);
    });
    lane.sync_warp();
  }

  template <simt::lane Lane>
  TRILITH_DEVICE void store(Lane& lane, const GradientRows<float>& to) const {
    each<4>(lane, [&](int row, int column) {
      if (!to.has(row, column)) return;
      lane.store(to.matrix.elements, to.index(row, column),
                 lane.load(floats, index(row, column), simt::Width<4>{}));
    });
  }

  // Rounded.
  template <simt::lane Lane, half T>
  TRILITH_DEVICE void store(Lane& lane, const GradientRows<T>& to) const {
    // Of 8 lanes, which load together, half begin with their second chunk: else two of them would have a
    // bank.
    const int swapped = lane.index() / 4 % 2;
    each<8>(lane, [&](int row, int column) {
      if (!to.has(row, column)) return;
      const auto one = lane.load(floats, index(row, column + 4 * swapped), simt::Width<4>{});
      const auto other = lane.load(floats, index(row, column + 4 - 4 * swapped), simt::Width<4>{});
      simt::Pack<std::uint32_t, 4> rounded;
      TRILITH_UNROLL
      for (int i = 0; i < 4; i += 2) {
        const std::uint32_t of_one = pack_pair<T>(one[i], one[i + 1]);
        const std::uint32_t of_other = pack_pair<T>(other[i], other[i + 1]);
        rounded[i / 2] = swapped != 0 ? of_other : of_one;
        rounded[i / 2 + 2] = swapped != 0 ? of_one : of_other;
      }
      lane.store(to.matrix.elements, to.index(row, column), std::bit_cast<simt::Pack<T, 8>>(rounded));
    });
  }

 private:
  static TRILITH_DEVICE int index(int row, int column) { return row * Columns + (column ^ row % 4 * 8); }

  // Calls body(row, column) for every N elements that are a lane's share, lanes side by side.
  template <int N, simt::lane Lane, class Body>
  static TRILITH_DEVICE void each(Lane& lane, Body&& body) {
    constexpr int packs = Columns / N;  // of a row
    static_assert(simt::warp_size % packs == 0, "GradientRoom: a warp must take whole rows");
    for (int row = lane.index() / packs; row < Rows; row += simt::warp_size / packs) {
      body(row, lane.index() % packs * N);
    }
  }
};

}  // namespace trilith::inline v0::kernels
