// The scores of a warp's queries with a tile of keys, and the online softmax over them, in registers.
//
// A warp has Blocks × 16 queries. Of each block a lane has two: lane / 4, and 8 after it; a quad of lanes
// shares them. `row` 2b + h is a lane's query h of block b.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

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

  // Calls body(value) for what the lane has of a row.
  template <class Body>
  TRILITH_DEVICE void for_row(int row, Body&& body) {
    TRILITH_UNROLL
    for (int n = 0; n < Columns / 8; ++n) {
      body(x[row / 2][n][row % 2 * 2]);
      body(x[row / 2][n][row % 2 * 2 + 1]);
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
};

// Where in its warp's Blocks × 16 queries a lane's row lies.
TRILITH_DEVICE constexpr int query_of_row(int lane, int row) {
  return row / 2 * 16 + row % 2 * 8 + lane / 4;
}

// Products become scores, capped.
template <simt::lane Lane, int Blocks, int Columns>
TRILITH_DEVICE void cap_scores(Lane& lane, Accumulators<Blocks, Columns>& scores, const ScoreScale& scale) {
  TRILITH_UNROLL
  for (int row = 0; row < 2 * Blocks; ++row) {
    scores.for_row(row, [&](float& score) { score = scale.cap * tanh(lane, score * scale.per_cap); });
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

// The running softmax of a lane's rows over scores in units of their own; `unit` of mask/softmax_carry.hpp's
// are one.
template <int Blocks>
struct OnlineSoftmax {
  static constexpr int rows = 2 * Blocks;

  float maximum[rows];
  float sum[rows];  // over the lane's own columns; the quad's add up

  // A sink's score, which counts `sum`, or −∞ and 0.
  template <simt::lane Lane>
  TRILITH_DEVICE void begin(const Lane& lane, float sink, float sink_sum) {
    TRILITH_UNROLL
    for (int row = 0; row < rows; ++row) {
      maximum[row] = sink;
      sum[row] = lane.index() % 4 == 0 ? sink_sum : 0.0f;
    }
  }

  // Takes further scores in and makes them weights, e^(score − maximum). `out` is brought to the new maximum.
  // factor: of scores, in the exponent of 2.
  template <simt::lane Lane, int Columns, int Width>
  TRILITH_DEVICE void take(Lane& lane, Accumulators<Blocks, Columns>& scores, float factor,
                           Accumulators<Blocks, Width>& out) {
    TRILITH_UNROLL
    for (int row = 0; row < rows; ++row) {
      float most = maximum[row];
      scores.for_row(row, [&](float score) { most = std::fmax(most, score); });
      most = quad_max(lane, most);
      const float base = most == minus_infinity ? 0.0f : most;  // e^(−∞ − 0) is 0, −∞ − (−∞) would be NaN
      const float rescale = lane.exp2((maximum[row] - base) * factor);
      maximum[row] = most;
      out.for_row(row, [&](float& x) { x *= rescale; });
      float total = sum[row] * rescale;
      const float shift = base * factor;
      scores.for_row(row, [&](float& score) {
        score = lane.exp2(score * factor - shift);
        total += score;
      });
      sum[row] = total;
    }
  }
};

}  // namespace trilith::inline v0::kernels
