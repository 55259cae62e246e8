// Attention on the host: out = softmax(scale · q kᵀ) v for each head, and its gradients.
//
// q and out: (batch, queries, heads, dimension); k and v: (batch, keys, kv_heads, dimension), where heads is a
// multiple of kv_heads and query head h reads key head h / (heads / kv_heads); lse and delta: (batch, heads,
// queries). Everything is float32, and strided in all but the last dimension. Outputs are overwritten.
//
// Scores exist only as tiles: the softmax is online (Milakov and Gimelshein, arXiv:1805.02867; Dao et al.,
// arXiv:2205.14135), its carry of output, maximum and sum unnormalised until the last key, and the backward
// pass forms the weights again from lse. Results don't depend on the number of threads: a thread computes
// whole tiles of queries (forward) or whole heads of keys (backward), in ascending order.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops {

// Which keys a query sees: all, or those with key ≤ query + keys − queries, so that the last query sees every
// key. A query that sees none has out 0, lse −∞ and no gradients.
enum class Mask { full, causal };

namespace tile {

inline constexpr Index query_tile = 128;
inline constexpr Index key_tile = 128;

// Query i sees a prefix of the keys: those below i + 1 + offset, where there are so many.
class Visibility {
 public:
  Visibility(Mask mask, Index queries, Index keys)
      : offset_(mask == Mask::causal ? keys - queries : keys), keys_(keys) {}

  Index keys_of(Index query) const { return std::clamp<Index>(query + 1 + offset_, 0, keys_); }
  Index first_query_of(Index key) const { return std::max<Index>(key - offset_, 0); }

 private:
  Index offset_;
  Index keys_;
};

// One head of a (batch, sequence, heads, dimension) tensor, as (sequence, dimension).
template <class T>
Matrix<T> head_of(View<T, 4> x, Index batch, Index head) {
  return {&x(batch, 0, head, 0), {x.extent(1), x.extent(3)}, {x.stride(1), 1}};
}

// The carry of the online softmax for simd::lanes queries, but for its output.
struct SoftmaxCarry {
  simd::Floats maximum;
  simd::Floats sum;
};

// Takes in the scores of `keys` further keys, one row of lanes each, `stride` floats apart, and turns them
// into weights relative to the new maximum. Returns the factor that brings earlier weights to it.
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

// Up to query_tile queries of one head, from `first` on, over all keys.
inline void attend(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, float scale,
                   Index first, Visibility visible, Matrix<float> out, Vector<float> lse) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Index queries = q.extent(0);
  const Index dimension = q.extent(1);
  const Index width = round_up(dimension, simd::lanes);
  const Index seen = visible.keys_of(first + queries - 1);

  const auto pieces = scratch({query_tile * dimension, query_tile * width, key_tile * width,
                               key_tile * width, key_tile * panel});
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
      multiply<Accumulate::no>(shared, panel, dimension, Left<Contiguous::inner>{k_tile, width},
                               q_panel, panel, scores, panel);
      if (shared < count) {
        multiply<Accumulate::no>(count - shared, panel - simd::lanes, dimension,
                                 Left<Contiguous::inner>{k_tile + shared * width, width},
                                 q_panel + simd::lanes, panel, scores + shared * panel + simd::lanes,
                                 panel);
      }
      for (Index i = row; i < std::min(row + panel, queries); i += simd::lanes) {
        const Index some = std::min(visible.keys_of(first + i + simd::lanes - 1) - key, count);
        if (some <= 0) continue;
        float* const weights = scores + (i - row);
        for (Index j = std::max<Index>(visible.keys_of(first + i) - key, 0); j < some; ++j) {
          const int lane = static_cast<int>(visible.first_query_of(key + j) - first - i);
          float* const at = weights + j * panel;
          simd::store(at, simd::select(simd::lane_numbers() >= lane, simd::load(at),
                                       simd::broadcast(-infinity)));
        }
        const simd::Floats factor = take_scores(carries[i / simd::lanes], weights, panel, some);
        float* const o = o_tile + i * width;
        for (Index r = 0; r < simd::lanes; ++r) {
          for (Index c = 0; c < width; c += simd::lanes) {
            float* const at = o + r * width + c;
            simd::store(at, simd::load(at) * factor[r]);
          }
        }
        multiply<Accumulate::yes>(simd::lanes, width, some, Left<Contiguous::row>{weights, panel},
                                  v_tile, width, o, width);
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

}  // namespace tile

inline void attention(const Host::Stream& stream, View<const float, 4> q, View<const float, 4> k,
                      View<const float, 4> v, float scale, Mask mask, View<float, 4> out,
                      View<float, 3> lse) {
  const Index queries = q.extent(1);
  const Index heads = q.extent(2);
  const Index group = heads / k.extent(2);
  const tile::Visibility visible(mask, queries, k.extent(1));
  const Index tiles = (queries + tile::query_tile - 1) / tile::query_tile;
  stream.parallel_for(q.extent(0) * heads * tiles, 1, [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index batch = item / (heads * tiles);
      const Index head = item / tiles % heads;
      // A late tile follows an early one, so that causal work is even over any part of a head's tiles.
      const Index turn = item % tiles;
      const Index first = (turn % 2 == 0 ? turn / 2 : tiles - 1 - turn / 2) * tile::query_tile;
      const Index length = std::min(tile::query_tile, queries - first);
      tile::attend(tile::head_of(q, batch, head).slice(0, first, length),
                   tile::head_of(k, batch, head / group), tile::head_of(v, batch, head / group),
                   scale, first, visible, tile::head_of(out, batch, head).slice(0, first, length),
                   lse[batch][head].slice(0, first, length));
    }
  });
}

namespace tile {

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

// One head of keys and the group of query heads that read it, in one batch entry; all (sequence, dimension),
// or (queries).
struct QueryHead {
  Matrix<const float> q, d_out;
  Vector<const float> lse, delta;
  Matrix<float> dq;
};

// A tile of keys and the gradients that gather in it.
struct KeyTile {
  float* k_panels;  // (keys / panel, dimension, panel)
  float* v_panels;
  float* k_rows;  // scale · k, (keys, width)
  float* dk;      // (keys, width)
  float* dv;
  Index first;
  Index length;
};

// A tile of queries.
struct QueryTile {
  float* q_rows;  // scale · q, (queries, width)
  float* d_out;   // (queries, width)
  float* dq;
  float* weights;   // (queries, keys)
  float* d_scores;  // (queries, keys)
};

// What the queries from `first` on, query_tile at most, give to the keys of a tile and get from them.
inline void attend_backward(const KeyTile& keys, const QueryTile& tile, QueryHead head, float scale,
                            Index first, Visibility visible) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Index dimension = head.q.extent(1);
  const Index width = round_up(dimension, simd::lanes);
  const Index rows = std::min(query_tile, head.q.extent(0) - first);
  const Matrix<float> dq = head.dq.slice(0, first, rows);
  pack_rows(head.q.slice(0, first, rows), scale, tile.q_rows, width);
  pack_rows(head.d_out.slice(0, first, rows), 1, tile.d_out, width);
  pack_rows(dq, 1, tile.dq, width);

  // Rows above the first that sees a key of a strip of simd::lanes keys are left alone.
  const auto skipped = [&](Index strip) {
    const Index row = visible.first_query_of(keys.first + strip) - first;
    return std::clamp<Index>(row, 0, rows) / simd::lanes * simd::lanes;
  };
  for (Index p = 0; p < keys.length; p += panel) {
    // The rows that see only the first strip of a panel, then those that see it all.
    const Index top = skipped(p);
    const Index whole = skipped(p + panel - simd::lanes);
    const auto scores = [&](const float* left, const float* panels, float* to, Index row, Index count,
                            Index columns) {
      multiply<Accumulate::no>(count, columns, dimension,
                               Left<Contiguous::inner>{left + row * width, width},
                               panels + p * dimension, panel, to + row * key_tile + p, key_tile);
    };
    scores(tile.q_rows, keys.k_panels, tile.weights, top, whole - top, panel - simd::lanes);
    scores(tile.q_rows, keys.k_panels, tile.weights, whole, rows - whole, panel);
    scores(tile.d_out, keys.v_panels, tile.d_scores, top, whole - top, panel - simd::lanes);
    scores(tile.d_out, keys.v_panels, tile.d_scores, whole, rows - whole, panel);
  }

  for (Index strip = 0; strip < keys.length; strip += simd::lanes) {
    const Index top = skipped(strip);
    for (Index row = top; row < rows; ++row) {
      const Index query = first + row;
      const Index seen = visible.keys_of(query) - keys.first - strip;
      const float lse = head.lse(query) == -infinity ? infinity : head.lse(query);
      float* const weight_at = tile.weights + row * key_tile + strip;
      float* const d_score_at = tile.d_scores + row * key_tile + strip;
      simd::Floats weight = simd::exp(simd::load(weight_at) - lse);
      if (seen < simd::lanes) {
        weight = simd::select(simd::lane_numbers() < static_cast<int>(seen), weight, simd::Floats{});
      }
      simd::store(weight_at, weight);
      simd::store(d_score_at, weight * (simd::load(d_score_at) - head.delta(query)));
    }
    const Index some = std::min(simd::lanes, keys.length - strip);
    multiply<Accumulate::yes>(
        some, width, rows - top,
        Left<Contiguous::row>{tile.weights + top * key_tile + strip, key_tile},
        tile.d_out + top * width, width, keys.dv + strip * width, width);
    multiply<Accumulate::yes>(
        some, width, rows - top,
        Left<Contiguous::row>{tile.d_scores + top * key_tile + strip, key_tile},
        tile.q_rows + top * width, width, keys.dk + strip * width, width);
  }

  for (Index i = 0; i < rows; i += simd::lanes) {
    const Index some =
        std::min(visible.keys_of(first + i + simd::lanes - 1) - keys.first, keys.length);
    multiply<Accumulate::yes>(std::min(simd::lanes, rows - i), width, some,
                              Left<Contiguous::inner>{tile.d_scores + i * key_tile, key_tile},
                              keys.k_rows, width, tile.dq + i * width, width);
  }
  unpack_rows(tile.dq, width, dq);
}

}  // namespace tile

// out and lse are those of attention() over all keys of the softmax, so k and v may be a part of these. delta is
// scratch: it is left as the row sums of d_out · out.
inline void attention_backward(const Host::Stream& stream, View<const float, 4> q,
                               View<const float, 4> k, View<const float, 4> v,
                               View<const float, 4> out, View<const float, 3> lse,
                               View<const float, 4> d_out, float scale, Mask mask,
                               View<float, 3> delta, View<float, 4> dq, View<float, 4> dk,
                               View<float, 4> dv) {
  using tile::head_of;
  using tile::key_tile;
  using tile::query_tile;
  const Index keys = k.extent(1);
  const Index kv_heads = k.extent(2);
  const Index group = q.extent(2) / kv_heads;
  const Index dimension = q.extent(3);
  const Index width = tile::round_up(dimension, simd::lanes);
  const tile::Visibility visible(mask, q.extent(1), keys);
  stream.parallel_for(q.extent(0) * kv_heads, 1, [&](Index begin, Index end) {
    const auto pieces = tile::scratch(
        {key_tile * dimension, key_tile * dimension, key_tile * width, key_tile * width,
         key_tile * width, query_tile * width, query_tile * width, query_tile * width,
         query_tile * key_tile, query_tile * key_tile});
    tile::KeyTile some{pieces[0], pieces[1], pieces[2], pieces[3], pieces[4], 0, 0};
    const tile::QueryTile rows{pieces[5], pieces[6], pieces[7], pieces[8], pieces[9]};
    for (Index item = begin; item < end; ++item) {
      const Index batch = item / kv_heads;
      const Index kv_head = item % kv_heads;
      for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        tile::row_dots(head_of(d_out, batch, head), head_of(out, batch, head), delta[batch][head]);
        const Matrix<float> cleared = head_of(dq, batch, head);
        for (Index i = 0; i < cleared.extent(0); ++i) std::fill_n(&cleared(i, 0), dimension, 0.0f);
      }
      for (some.first = 0; some.first < keys; some.first += key_tile) {
        some.length = std::min(key_tile, keys - some.first);
        const auto k_slice = head_of(k, batch, kv_head).slice(0, some.first, some.length);
        const auto v_slice = head_of(v, batch, kv_head).slice(0, some.first, some.length);
        tile::pack_transposed(k_slice, 1, some.k_panels);
        tile::pack_transposed(v_slice, 1, some.v_panels);
        tile::pack_rows(k_slice, scale, some.k_rows, width);
        std::fill_n(some.dk, key_tile * width, 0.0f);
        std::fill_n(some.dv, key_tile * width, 0.0f);
        for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          const tile::QueryHead queries{head_of(q, batch, head), head_of(d_out, batch, head),
                                        lse[batch][head], delta[batch][head],
                                        head_of(dq, batch, head)};
          for (Index first = visible.first_query_of(some.first) / query_tile * query_tile;
               first < q.extent(1); first += query_tile) {
            tile::attend_backward(some, rows, queries, scale, first, visible);
          }
        }
        tile::unpack_rows(some.dk, width,
                          head_of(dk, batch, kv_head).slice(0, some.first, some.length));
        tile::unpack_rows(some.dv, width,
                          head_of(dv, batch, kv_head).slice(0, some.first, some.length));
      }
    }
  });
}

}  // namespace trilith::inline v0::ops
