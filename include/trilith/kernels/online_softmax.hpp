// The scores of a warp's queries with a tile of keys, and the online softmax over them, in registers.
//
// A warp has Blocks × 16 queries. Of each block a lane has two: lane / 4, and 8 after it; a quad of lanes
// shares them. `row` 2b + h is a lane's query h of block b.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/accumulators.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Calls body(value) for what a lane has of a row.
template <int Blocks, int Columns, class Body>
TRILITH_DEVICE void for_row(Accumulators<Blocks, Columns>& values, int row, Body&& body) {
  TRILITH_UNROLL
  for (int n = 0; n < Columns / 8; ++n) {
    body(values.x[row / 2][n][row % 2 * 2]);
    body(values.x[row / 2][n][row % 2 * 2 + 1]);
  }
}

// Where in its warp's Blocks × 16 queries a lane's row lies.
TRILITH_DEVICE constexpr int query_of_row(int lane, int row) {
  return row / 2 * 16 + row % 2 * 8 + lane / 4;
}

// Products become scores, capped.
template <simt::lane Lane, int Blocks, int Columns>
TRILITH_DEVICE void cap_scores(Lane& lane, Accumulators<Blocks, Columns>& scores, const ScoreScale& scale) {
  TRILITH_UNROLL
  for (int row = 0; row < 2 * Blocks; ++row) {
    for_row(scores, row, [&](float& score) { score = scale.cap * tanh(lane, score * scale.per_cap); });
  }
}

// −∞ for the scores of a row with keys outside [first, last), counted from the tile's first key.
template <simt::lane Lane, int Blocks, int Columns>
TRILITH_DEVICE void hide_scores(Lane& lane, Accumulators<Blocks, Columns>& scores, int row,
                                std::int32_t first, std::int32_t last) {
  const auto count = static_cast<std::uint32_t>(last > first ? last - first : 0);
  auto from_first = static_cast<std::uint32_t>(lane.index() % 4 * 2 - first);
  TRILITH_UNROLL
  for (int n = 0; n < Columns / 8; ++n) {
    TRILITH_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (from_first + static_cast<std::uint32_t>(8 * n + i) >= count)
        scores.x[row / 2][n][row % 2 * 2 + i] = minus_infinity;
    }
  }
}

// The running softmax of a lane's rows over scores in units of ScoreScale.
template <int Blocks>
struct OnlineSoftmax {
  static constexpr int rows = 2 * Blocks;

  float maximum[rows];
  float sum[rows];  // over the lane's own columns; the quad's add up

  // Before the first key: the score of a sink, which counts 1, or −∞.
  template <simt::lane Lane>
  TRILITH_DEVICE void begin(const Lane& lane, float sink) {
    TRILITH_UNROLL
    for (int row = 0; row < rows; ++row) {
      maximum[row] = sink;
      sum[row] = lane.index() % 4 == 0 && sink > minus_infinity ? 1.0f : 0.0f;
    }
  }

  // Takes further scores in and makes them weights, e^(score − maximum). What `out` and the sums have is
  // brought to the new maxima where one of the warp's rises. factor: of scores, in the exponent of 2.
  template <simt::lane Lane, int Columns, int Width>
  TRILITH_DEVICE void take(Lane& lane, Accumulators<Blocks, Columns>& scores, float factor,
                           Accumulators<Blocks, Width>& out) {
    float rescale[rows];
    bool rises = false;
    TRILITH_UNROLL
    for (int row = 0; row < rows; ++row) {
      float most = maximum[row];
      for_row(scores, row, [&](float score) { most = std::fmax(most, score); });
      most = warp_reduce<4>(lane, most, Maximum{});
      rises |= most > maximum[row];
      rescale[row] = lane.exp2((maximum[row] - shift_of(most)) * factor);
      maximum[row] = most;
    }
    if (lane.any(rises)) {
      TRILITH_UNROLL
      for (int row = 0; row < rows; ++row) {
        for_row(out, row, [&](float& x) { x *= rescale[row]; });
        sum[row] *= rescale[row];
      }
    }
    TRILITH_UNROLL
    for (int row = 0; row < rows; ++row) {
      const float shift = shift_of(maximum[row]) * factor;
      for_row(scores, row, [&](float& score) {
        score = lane.exp2(score * factor - shift);
        sum[row] += score;
      });
    }
  }

 private:
  // e^(−∞ − 0) is 0, −∞ − (−∞) would be NaN.
  static TRILITH_DEVICE float shift_of(float most) { return most == minus_infinity ? 0.0f : most; }
};

}  // namespace trilith::inline v0::kernels
