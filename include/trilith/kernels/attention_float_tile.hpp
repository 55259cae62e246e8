// What the float32 attention kernels are made of. They are there so that Precision<F32> has attention where
// kernels run: simple, not fast, for tensor cores take no such numbers.
//
// A block has 16 rows of its own, 4 for each warp: queries, or for dk and dv keys. It goes over tiles of 32
// rows of the other kind, one for each lane. All of them lie in shared memory. A row's scores with a tile are
// computed by its warp, a lane each, and put into shared memory, from where every lane takes them for its
// columns of the result, which stay in registers.
#pragma once

#include <cmath>

#include <trilith/core/device_code.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Rows of floats in shared memory, of at most Width columns. The lanes of a warp read 16 bytes of a row each
// without a bank conflict.
template <int Width>
struct FloatRows {
  static constexpr int stride = Width + 4;

  template <int Rows>
  using Storage = simt::Array<float, Rows * stride>;
  static constexpr int bytes(int rows) { return rows * stride * static_cast<int>(sizeof(float)); }

  simt::Shared<float> elements;

  // Rows `first` on of `from`, up to its row `end`; zeros beyond it, and up to a multiple of 4 columns.
  template <int Rows, int Warps, simt::lane Lane>
  TRILITH_DEVICE void load(Lane& lane, const StridedRows<const float>& from, int first, int end,
                           int columns) const {
    for (int row = lane.warp(); row < Rows; row += Warps) {
      const Index begin = (first + row) * from.stride;
      for (int column = lane.index(); column < round_up(columns, 4); column += simt::warp_size) {
        const bool there = first + row < end && column < columns;
        lane.store(elements, row * stride + column, there ? lane.load(from.elements, begin + column) : 0.0f);
      }
    }
  }

  // Of one row, and one of another.
  template <simt::lane Lane>
  TRILITH_DEVICE float dot(Lane& lane, int row, const FloatRows& other, int other_row, int columns) const {
    float sum = 0;
    for (int column = 0; column < columns; column += 4) {
      const auto a = lane.load(elements, row * stride + column, simt::Width<4>{});
      const auto b = lane.load(other.elements, other_row * stride + column, simt::Width<4>{});
      TRILITH_UNROLL
      for (int i = 0; i < 4; ++i) sum += a[i] * b[i];
    }
    return sum;
  }
};

// What both directions know of a score.
struct ScoreSettings {
  float scale;
  float soft_cap;  // 0: none

  TRILITH_DEVICE float score(float product) const {
    const float score = product * scale;
    return soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
  }

  // Of the product, from that of the score.
  TRILITH_DEVICE float gradient(float score, float d_score) const {
    const float part = soft_cap > 0 ? score / soft_cap : 0.0f;
    return d_score * (1 - part * part) * scale;
  }
};

// What a warp's four rows share out over its lanes: column lane + 32 i of row r.
template <int Width>
struct WarpRows {
  static constexpr int rows = 4;

  float x[rows][Width / simt::warp_size];

  TRILITH_DEVICE void clear() {
    TRILITH_UNROLL
    for (int r = 0; r < rows; ++r) scale(r, 0);
  }

  TRILITH_DEVICE void scale(int r, float factor) {
    TRILITH_UNROLL
    for (int i = 0; i < Width / simt::warp_size; ++i) x[r][i] = factor == 0 ? 0.0f : x[r][i] * factor;
  }

  // += weights · rows of 32 rows. `weights`: (rows, 32), from `row` on those of this warp.
  template <simt::lane Lane>
  TRILITH_DEVICE void add_product(Lane& lane, simt::Shared<float> weights, int row,
                                  const FloatRows<Width>& other, int columns) {
    for (int j = 0; j < simt::warp_size; j += 4) {
      simt::Pack<float, 4> weight[rows];
      TRILITH_UNROLL
      for (int r = 0; r < rows; ++r) {
        weight[r] = lane.load(weights, (row + r) * simt::warp_size + j, simt::Width<4>{});
      }
      TRILITH_UNROLL
      for (int k = 0; k < 4; ++k) {
        TRILITH_UNROLL
        for (int i = 0; i < Width / simt::warp_size; ++i) {
          const int column = lane.index() + i * simt::warp_size;
          if (column >= columns) continue;
          const float value = lane.load(other.elements, (j + k) * FloatRows<Width>::stride + column);
          TRILITH_UNROLL
          for (int r = 0; r < rows; ++r) x[r][i] += weight[r][k] * value;
        }
      }
    }
  }

  // Row r from, or to, row `row` of a matrix.
  template <simt::lane Lane>
  TRILITH_DEVICE void load(Lane& lane, int r, const StridedRows<float>& from, int row, int columns) {
    TRILITH_UNROLL
    for (int i = 0; i < Width / simt::warp_size; ++i) {
      const int column = lane.index() + i * simt::warp_size;
      x[r][i] = column < columns ? lane.load(from.elements, row * from.stride + column) : 0.0f;
    }
  }
  template <simt::lane Lane>
  TRILITH_DEVICE void store(Lane& lane, int r, const StridedRows<float>& to, int row, int columns) const {
    TRILITH_UNROLL
    for (int i = 0; i < Width / simt::warp_size; ++i) {
      const int column = lane.index() + i * simt::warp_size;
      if (column < columns) lane.store(to.elements, row * to.stride + column, x[r][i]);
    }
  }
};

struct FloatAttention {
  static constexpr int warps = 4;
  static constexpr int threads = warps * simt::warp_size;
  static constexpr int own = 4 * warps;         // rows of a block
  static constexpr int tile = simt::warp_size;  // rows of the other kind
  static constexpr float log2_e = 1.44269504f;
  static constexpr int weight_bytes = own * tile * static_cast<int>(sizeof(float));
  using Weights = simt::Array<float, own * tile>;
};

}  // namespace trilith::inline v0::kernels
