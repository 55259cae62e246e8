// Attention of a tile of queries, or to a tile of keys, of one head: what one thread does at a time.
//
// A head is a (sequence, dimension) matrix of strided rows. Tiles are packed first: rows are filled up to
// `width` floats, the dimension rounded up to simd::lanes, with 0; what lies in rows beyond the last is never
// read into a result. The factor `scale` is taken in with q in both passes, so the backward pass forms the
// very scores, to the bit, whose log-sum-exp the forward pass took.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <trilith/core/tensor.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops::tile {

inline constexpr Index query_tile = 128;
inline constexpr Index key_tile = 128;

// Query i sees a prefix of the keys: the first i + 1 + offset, as far as there are so many.
class Visibility {
 public:
  Visibility(Index offset, Index keys) : offset_(offset), keys_(keys) {}

  Index keys_of(Index query) const { return std::clamp<Index>(query + 1 + offset_, 0, keys_); }
  Index first_query_of(Index key) const { return std::max<Index>(key - offset_, 0); }

 private:
  Index offset_;
  Index keys_;
};

// The carry of the online softmax for simd::lanes queries, but for its output.
struct SoftmaxCarry {
  simd::Floats maximum;
  simd::Floats sum;
};

// Takes in the scores of `keys` further keys, one row of lanes each, `stride` floats apart, and turns them
// into weights relative to the new maximum. Returns the factor that brings earlier weights to it. The maximum
// is taken in four chains, because one would wait for itself.
inline simd::Floats take_scores(SoftmaxCarry& carry, float* scores, Index stride, Index keys) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr Index chains = 4;
  simd::Floats most[chains];
  for (simd::Floats& x : most) x = carry.maximum;
  Index key = 0;
  for (; key + chains <= keys; key += chains) {
    for (Index i = 0; i < chains; ++i) {
      most[i] = simd::max(simd::load(scores + (key + i) * stride), most[i]);
    }
  }
  for (; key < keys; ++key) most[0] = simd::max(simd::load(scores + key * stride), most[0]);
  const simd::Floats maximum = simd::max(simd::max(most[0], most[1]), simd::max(most[2], most[3]));

  // Where nothing was visible yet, −∞ − 0 keeps the weights 0; −∞ − (−∞) would be NaN.
  const simd::Floats shift = simd::select(maximum == -infinity, simd::Floats{}, maximum);
  simd::Floats sum{};
  for (key = 0; key < keys; ++key) {
    const simd::Floats weight = simd::exp(simd::load(scores + key * stride) - shift);
    simd::store(scores + key * stride, weight);
    sum += weight;
  }
  const simd::Floats factor = simd::exp(carry.maximum - shift);
  carry = {maximum, carry.sum * factor + sum};
  return factor;
}

// The scores of the queries from `query` on, one a lane, with the keys from `key` on, one a row of panel
// floats: −∞ where the query does not see the key.
inline void hide(float* scores, Index keys, Index key, Index query, Visibility visible) {
  for (Index j = std::max<Index>(visible.keys_of(query) - key, 0); j < keys; ++j) {
    const int first_lane = static_cast<int>(visible.first_query_of(key + j) - query);
    const simd::Ints sees = simd::lane_numbers() >= first_lane;
    float* const at = scores + j * panel;
    simd::store(at,
                simd::select(sees, simd::load(at), simd::broadcast(-std::numeric_limits<float>::infinity())));
  }
}

// The queries of one head from `first` on, query_tile at most, over all keys.
inline void attend(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, float scale,
                   Index first, Visibility visible, Matrix<float> out, Vector<float> lse) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Index queries = q.extent(0);
  const Index dimension = q.extent(1);
  const Index width = round_up(dimension, simd::lanes);
  const Index seen = visible.keys_of(first + queries - 1);

  const auto pieces = scratch(
      {query_tile * dimension, query_tile * width, key_tile * width, key_tile * width, key_tile * panel});
  const auto [q_panels, o_tile, k_tile, v_tile, scores] = pieces;
  SoftmaxCarry carries[query_tile / simd::lanes];
  for (SoftmaxCarry& carry : carries) carry = {simd::broadcast(-infinity), simd::Floats{}};
  std::fill_n(o_tile, round_up(queries, simd::lanes) * width, 0.0f);
  pack_transposed(q, scale, q_panels);

  for (Index key = 0; key < seen; key += key_tile) {
    const Index length = std::min(key_tile, seen - key);
    pack_rows(k.slice(0, key, length), 1, k_tile, width);
    pack_rows(v.slice(0, key, length), 1, v_tile, width);
    for (Index row = 0; row < queries; row += panel) {
      const Index last = first + std::min(row + panel, queries) - 1;
      const Index count = std::min(visible.keys_of(last) - key, length);
      if (count <= 0) continue;
      // Scores are (keys, queries): what a lane computes is one query's. The first lanes see the fewest keys.
      const float* const q_panel = q_panels + row * dimension;
      const Index shared = std::clamp<Index>(
          round_up(visible.keys_of(first + row + simd::lanes - 1) - key, row_block), 0, count);
      multiply<Accumulate::no>(shared, panel, dimension, Left<Contiguous::inner>{k_tile, width}, q_panel,
                               panel, scores, panel);
      if (shared < count) {
        multiply<Accumulate::no>(count - shared, panel - simd::lanes, dimension,
                                 Left<Contiguous::inner>{k_tile + shared * width, width},
                                 q_panel + simd::lanes, panel, scores + shared * panel + simd::lanes, panel);
      }
      for (Index i = row; i < std::min(row + panel, queries); i += simd::lanes) {
        const Index some = std::min(visible.keys_of(first + i + simd::lanes - 1) - key, count);
        if (some <= 0) continue;
        float* const weights = scores + (i - row);
        hide(weights, some, key, first + i, visible);
        const simd::Floats factor = take_scores(carries[i / simd::lanes], weights, panel, some);
        float* const o = o_tile + i * width;
        for (Index r = 0; r < simd::lanes; ++r) {
          for (Index c = 0; c < width; c += simd::lanes) {
            float* const at = o + r * width + c;
            simd::store(at, simd::load(at) * factor[r]);
          }
        }
        multiply<Accumulate::yes>(simd::lanes, width, some, Left<Contiguous::row>{weights, panel}, v_tile,
                                  width, o, width);
      }
    }
  }

  for (Index row = 0; row < queries; ++row) {
    const SoftmaxCarry& carry = carries[row / simd::lanes];
    const float sum = carry.sum[row % simd::lanes];
    const float inverse = sum > 0 ? 1 / sum : 0;
    lse(row) = carry.maximum[row % simd::lanes] + std::log(sum);
    for (float* at = o_tile + row * width; at < o_tile + (row + 1) * width; at += simd::lanes) {
      simd::store(at, simd::load(at) * inverse);
    }
  }
  unpack_rows(o_tile, width, out);
}

// sums(i) = a(i, ·) · b(i, ·)
inline void row_dots(Matrix<const float> a, Matrix<const float> b, Vector<float> sums) {
  const Index columns = a.extent(1);
  for (Index row = 0; row < a.extent(0); ++row) {
    simd::Floats sum{};
    Index column = 0;
    for (; column + simd::lanes <= columns; column += simd::lanes) {
      sum += simd::load(&a(row, column)) * simd::load(&b(row, column));
    }
    if (column < columns) {
      sum += simd::load_first(&a(row, column), columns - column) *
             simd::load_first(&b(row, column), columns - column);
    }
    sums(row) = simd::sum(sum);
  }
}

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
};

// Room for a packed tile of queries, and for its scores with a tile of keys.
struct QueryTile {
  float* q_rows;    // scale · q, (queries, width)
  float* d_out;     // (queries, width)
  float* dq;        // (queries, width)
  float* weights;   // (queries, keys)
  float* d_scores;  // (queries, keys)
};

// What the queries from `first` on, query_tile at most, give to the keys of a tile and get from them.
inline void attend_backward(const KeyTile& keys, const QueryTile& tile, QueryHead head, float scale,
                            Index first, Visibility visible) {
  const Index dimension = head.q.extent(1);
  const Index width = round_up(dimension, simd::lanes);
  const Index rows = std::min(query_tile, head.q.extent(0) - first);
  const Matrix<float> dq = head.dq.slice(0, first, rows);
  pack_rows(head.q.slice(0, first, rows), scale, tile.q_rows, width);
  pack_rows(head.d_out.slice(0, first, rows), 1, tile.d_out, width);
  pack_rows(dq, 1, tile.dq, width);

  // What is formed begins, for each strip of simd::lanes keys, at the rows that see one of them.
  const auto first_row = [&](Index strip) {
    const Index row = visible.first_query_of(keys.first + strip) - first;
    return std::clamp<Index>(row, 0, rows) / simd::lanes * simd::lanes;
  };
  for (Index p = 0; p < keys.length; p += panel) {
    // The rows that see only the first strip of a panel, then those that see it all.
    const Index top = first_row(p);
    const Index whole = first_row(p + panel - simd::lanes);
    const auto scores = [&](const float* left, const float* panels, float* to, Index row, Index count,
                            Index columns) {
      multiply<Accumulate::no>(count, columns, dimension, Left<Contiguous::inner>{left + row * width, width},
                               panels + p * dimension, panel, to + row * key_tile + p, key_tile);
    };
    scores(tile.q_rows, keys.k_panels, tile.weights, top, whole - top, panel - simd::lanes);
    scores(tile.q_rows, keys.k_panels, tile.weights, whole, rows - whole, panel);
    scores(tile.d_out, keys.v_panels, tile.d_scores, top, whole - top, panel - simd::lanes);
    scores(tile.d_out, keys.v_panels, tile.d_scores, whole, rows - whole, panel);
  }

  for (Index strip = 0; strip < keys.length; strip += simd::lanes) {
    const Index top = first_row(strip);
    for (Index row = top; row < rows; ++row) {
      const Index query = first + row;
      const Index seen = visible.keys_of(query) - keys.first - strip;
      float* const weight_at = tile.weights + row * key_tile + strip;
      float* const d_score_at = tile.d_scores + row * key_tile + strip;
      simd::Floats weight = simd::exp(simd::load(weight_at) - head.lse(query));
      if (seen < simd::lanes) {  // where the query sees none at all, e^(score + ∞) goes too
        weight = simd::select(simd::lane_numbers() < static_cast<int>(seen), weight, simd::Floats{});
      }
      simd::store(weight_at, weight);
      simd::store(d_score_at, weight * (simd::load(d_score_at) - head.delta(query)));
    }
    const Index some = std::min(simd::lanes, keys.length - strip);
    multiply<Accumulate::yes>(some, width, rows - top,
                              Left<Contiguous::row>{tile.weights + top * key_tile + strip, key_tile},
                              tile.d_out + top * width, width, keys.dv + strip * width, width);
    multiply<Accumulate::yes>(some, width, rows - top,
                              Left<Contiguous::row>{tile.d_scores + top * key_tile + strip, key_tile},
                              tile.q_rows + top * width, width, keys.dk + strip * width, width);
  }

  for (Index i = 0; i < rows; i += simd::lanes) {
    const Index some = std::min(visible.keys_of(first + i + simd::lanes - 1) - keys.first, keys.length);
    multiply<Accumulate::yes>(std::min(simd::lanes, rows - i), width, some,
                              Left<Contiguous::inner>{tile.d_scores + i * key_tile, key_tile}, keys.k_rows,
                              width, tile.dq + i * width, width);
  }
  unpack_rows(tile.dq, width, dq);
}

}  // namespace trilith::inline v0::ops::tile
