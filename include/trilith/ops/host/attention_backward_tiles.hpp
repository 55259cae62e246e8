// The backward pass of attention for a tile of keys and a tile of queries of one head: what one thread does
// at a time. Tiles are packed as attention_tiles.hpp says.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/row_ranges.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops::tile {

// One head of queries in the backward pass.
struct QueryHead {
  Matrix<const float> q, d_out;  // (queries, dimension)
  Vector<const float> lse, delta;
  Matrix<float> dq;  // added to
};

// A packed tile of keys and values, and the gradients that gather in it.
struct KeyTile {
  float* k_panels;  // (keys / panel, dimension, panel)
  float* v_panels;  // (keys / panel, dimension, panel)
  float* k_rows;    // scale · k, (keys, width)
  float* dk;        // (keys, width)
  float* dv;        // (keys, width)
  Index first;
  Index length;

  void begin(Matrix<const float> k, Matrix<const float> v, float scale, Index width) const {
    pack_transposed(k, 1, k_panels);
    pack_transposed(v, 1, v_panels);
    pack_rows(k, scale, k_rows, width);
    std::fill_n(dk, key_tile * width, 0.0f);
    std::fill_n(dv, key_tile * width, 0.0f);
  }
};

// Room for a packed tile of queries, and for its scores with a tile of keys.
struct QueryTile {
  float* q_rows;    // scale · q, (queries, width)
  float* d_out;     // (queries, width)
  float* dq;        // (queries, width)
  float* weights;   // (queries, keys)
  float* d_scores;  // (queries, keys)
};

// Both, in the calling thread's scratch memory.
struct BackwardTiles {
  KeyTile keys;
  QueryTile queries;

  explicit BackwardTiles(Index dimension) {
    const Index width = round_up(dimension, simd::lanes);
    const auto room =
        scratch(std::array{key_tile * dimension, key_tile * dimension, key_tile * width, key_tile * width,
                           key_tile * width, query_tile * width, query_tile * width, query_tile * width,
                           query_tile * key_tile, query_tile * key_tile});
    keys = {room[0], room[1], room[2], room[3], room[4], 0, 0};
    queries = {room[5], room[6], room[7], room[8], room[9]};
  }
};

namespace detail {

// Of each strip of simd::lanes keys, the rows of the tile that see one of them (with what may lie between),
// rounded out to whole groups of simd::lanes rows.
class StripRows {
 public:
  StripRows(const RowRanges& see, Index rows, const KeyTile& keys) {
    for (Index strip = 0; strip < keys.length; strip += simd::lanes) {
      const Index first_key = keys.first + strip;
      const Index end_key = first_key + std::min(simd::lanes, keys.length - strip);
      Interval& seen = strips_[strip / simd::lanes];
      seen = {rows, 0};
      for (Index row = 0; row < rows; row += simd::lanes) {
        const Interval hull = see.hull(row);
        if (hull.empty() || hull.last <= first_key || hull.first >= end_key) continue;
        seen.first = std::min(seen.first, row);
        seen.last = std::min(row + simd::lanes, rows);
      }
    }
  }

  Interval of(Index strip) const { return strips_[strip / simd::lanes]; }

 private:
  Interval strips_[key_tile / simd::lanes];
};

// From the scores of a strip of keys to its weights and the gradients of its scores, for the rows that see
// it.
inline void score_gradients(const QueryTile& tile, const QueryHead& head, const RowRanges& see, Index first,
                            Index key, Index strip, Interval rows, float soft_cap) {
  for (Index row = rows.first; row < rows.last; ++row) {
    const Index query = first + row;
    float* const weight_at = tile.weights + row * key_tile + strip;
    float* const d_score_at = tile.d_scores + row * key_tile + strip;
    simd::Floats score = simd::load(weight_at);
    simd::Floats slope = simd::broadcast(1);
    if (soft_cap > 0) {
      const simd::Floats t = simd::tanh(score * (1 / soft_cap));
      score = t * soft_cap;
      slope = 1.0f - t * t;
    }
    simd::Floats weight = simd::exp(score - head.lse(query));
    const Interval seen = see.of(row).within(key, simd::lanes);
    if (seen.size() < simd::lanes) {  // where the query sees none at all, e^(score + ∞) goes too
      const simd::Ints lane = simd::lane_numbers();
      const simd::Ints sees =
          (lane >= static_cast<int>(seen.first)) & (lane < static_cast<int>(std::max<Index>(seen.last, 0)));
      weight = simd::select(sees, weight, simd::Floats{});
    }
    simd::store(weight_at, weight);
    simd::store(d_score_at, weight * slope * (simd::load(d_score_at) - head.delta(query)));
  }
}

}  // namespace detail

// What the queries from `first` on, whose ranges `see` has, give to the keys of a tile and get from them.
inline void attend_backward(const KeyTile& keys, const QueryTile& tile, const QueryHead& head,
                            const AttentionSettings& settings, Index first, Index rows,
                            const RowRanges& see) {
  const Index dimension = head.q.extent(1);
  const Index width = round_up(dimension, simd::lanes);
  const Matrix<float> dq = head.dq.slice(0, first, rows);
  pack_rows(head.q.slice(0, first, rows), settings.scale, tile.q_rows, width);
  pack_rows(head.d_out.slice(0, first, rows), 1, tile.d_out, width);
  pack_rows(dq, 1, tile.dq, width);

  const detail::StripRows strips(see, rows, keys);
  for (Index p = 0; p < keys.length; p += panel) {
    PanelStrips rows_of_strips{};
    for (Index strip = 0; strip < vectors && p + strip * simd::lanes < keys.length; ++strip) {
      rows_of_strips[static_cast<std::size_t>(strip)] = strips.of(p + strip * simd::lanes);
    }
    for_each_region(rows_of_strips, [&](Interval region, Index strip, Index count) {
      const auto products = [&](const float* left, const float* panels, float* to) {
        multiply<Accumulate::no>(region.size(), count * simd::lanes, dimension,
                                 Left<Contiguous::inner>{left + region.first * width, width},
                                 panels + p * dimension + strip * simd::lanes, panel,
                                 to + region.first * key_tile + p + strip * simd::lanes, key_tile);
      };
      products(tile.q_rows, keys.k_panels, tile.weights);
      products(tile.d_out, keys.v_panels, tile.d_scores);
    });
  }

  for (Index strip = 0; strip < keys.length; strip += simd::lanes) {
    const Interval seen = strips.of(strip);
    if (seen.empty()) continue;
    detail::score_gradients(tile, head, see, first, keys.first + strip, strip, seen, settings.soft_cap);
    const Index some = std::min(simd::lanes, keys.length - strip);
    const auto gather = [&](const float* weights, const float* from, float* to) {
      multiply<Accumulate::yes>(some, width, seen.size(),
                                Left<Contiguous::row>{weights + seen.first * key_tile + strip, key_tile},
                                from + seen.first * width, width, to + strip * width, width);
    };
    gather(tile.weights, tile.d_out, keys.dv);
    gather(tile.d_scores, tile.q_rows, keys.dk);
  }

  for (Index row = 0; row < rows; row += simd::lanes) {
    const Interval seen = see.hull(row).within(keys.first, keys.length);
    if (seen.empty()) continue;
    const Index first_strip = seen.first / simd::lanes * simd::lanes;
    multiply<Accumulate::yes>(std::min(simd::lanes, rows - row), width, seen.last - first_strip,
                              Left<Contiguous::inner>{tile.d_scores + row * key_tile + first_strip, key_tile},
                              keys.k_rows + first_strip * width, width, tile.dq + row * width, width);
  }
  unpack_rows(tile.dq, width, dq);
}

}  // namespace trilith::inline v0::ops::tile
