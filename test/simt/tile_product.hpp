// A small real kernel: a matrix product of 16-bit inputs, in tiles of 64 × 64, with two stages of
// asynchronous copies.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::test {

// c = a · b, with extents that are multiples of 64. Each of 4 warps has a quarter of a tile, 32 × 32.
//
// Shared memory holds 16-byte chunks, swizzled so that 8 rows of one column of chunks lie in different banks,
// which is what ldmatrix reads: rows of 8 chunks XOR the chunk with the row; rows of 4, with the pair of
// rows.
template <half T>
struct TileProduct {
  static constexpr const char* name = "tile_product";
  static constexpr int threads = 128;
  static constexpr int tile = 64;
  static constexpr int depth = 32;  // of a stage
  static constexpr int stage_elements = tile * depth;
  static constexpr int shared_bytes = 2 * 2 * stage_elements * 2;

  struct Params {
    simt::Global<const T> a;  // (rows, inner)
    simt::Global<const T> b;  // (inner, columns)
    simt::Global<float> c;    // (rows, columns)
    int columns;
    int inner;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto a = lane.shared(simt::Array<T, 2 * stage_elements>{});
    const auto b = lane.shared(simt::Array<T, 2 * stage_elements>{});
    const int first_row = lane.block().y * tile;
    const int first_column = lane.block().x * tile;
    const int row = lane.warp() / 2 * 32;  // of the warp's quarter
    const int column = lane.warp() % 2 * 32;
    const int stages = p.inner / depth;

    simt::Accumulator c[2][4] = {};
    fetch(lane, p, a, b, first_row, first_column, 0);
    for (int stage = 0; stage < stages; ++stage) {
      if (stage + 1 < stages) fetch(lane, p, a, b, first_row, first_column, stage + 1);
      if (stage + 1 < stages) {
        lane.wait_copies(simt::Pending<1>{});
      } else {
        lane.wait_copies(simt::Pending<0>{});
      }
      lane.barrier();
      const int base = stage % 2 * stage_elements;
      TRILITH_UNROLL
      for (int k = 0; k < depth; k += 16) {
        simt::FragmentA<T> left[2];
        TRILITH_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int from = chunk_of_a(row + 16 * i + lane.index() % 16, k / 8 + lane.index() / 16);
          left[i] = lane.ldmatrix(a, base + from, simt::Matrices<4>{});
        }
        TRILITH_UNROLL
        for (int j = 0; j < 4; j += 2) {
          const int from = chunk_of_b(k + lane.index() % 16, column / 8 + j + lane.index() / 16);
          const simt::Pairs<T, 4> right = lane.ldmatrix_transposed(b, base + from, simt::Matrices<4>{});
          TRILITH_UNROLL
          for (int i = 0; i < 2; ++i) {
            lane.mma(c[i][j], left[i], right.template part<2>(0));
            lane.mma(c[i][j + 1], left[i], right.template part<2>(2));
          }
        }
      }
      lane.barrier();  // before the stage is overwritten
    }

    TRILITH_UNROLL
    for (int i = 0; i < 2; ++i) {
      TRILITH_UNROLL
      for (int j = 0; j < 4; ++j) {
        TRILITH_UNROLL
        for (int half = 0; half < 2; ++half) {
          const simt::Position at = simt::position_in_accumulator(lane.index(), 2 * half);
          const Index to = Index{first_row + row + 16 * i + at.row} * p.columns + first_column + column +
                           8 * j + at.column;
          lane.store(p.c, to, simt::Pack<float, 2>{{c[i][j][2 * half], c[i][j][2 * half + 1]}});
        }
      }
    }
  }

 private:
  // Where chunk `chunk` of a row begins, in elements.
  static TRILITH_DEVICE int chunk_of_a(int row, int chunk) {
    return row * depth + (chunk ^ (row / 2 % 4)) * 8;
  }
  static TRILITH_DEVICE int chunk_of_b(int row, int chunk) { return row * tile + (chunk ^ (row % 8)) * 8; }

  template <class Lane>
  static TRILITH_DEVICE void fetch(Lane& lane, const Params& p, simt::Shared<T> a, simt::Shared<T> b,
                                   int first_row, int first_column, int stage) {
    const int base = stage % 2 * stage_elements;
    TRILITH_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int chunk = lane.thread() + i * threads;
      lane.copy_async(a, base + chunk_of_a(chunk / 4, chunk % 4), p.a,
                      Index{first_row + chunk / 4} * p.inner + stage * depth + chunk % 4 * 8);
      lane.copy_async(b, base + chunk_of_b(chunk / 8, chunk % 8), p.b,
                      Index{stage * depth + chunk / 8} * p.columns + first_column + chunk % 8 * 8);
    }
    lane.commit_copies();
  }
};

}  // namespace trilith::test
