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

inline constexpr Index query_tile = 64;
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
                               key_tile * width, key_tile * panel, panel});
  const auto [q_panels, o_tile, k_tile, v_tile, scores, factors] = pieces;
  SoftmaxCarry carries[query_tile / simd::lanes];
  for (SoftmaxCarry& carry : carries) carry = {simd::broadcast(-infinity), simd::Floats{}};
  std::fill_n(o_tile, query_tile * width, 0.0f);
  pack_transposed(q, scale, q_panels);

  for (Index key = 0; key < seen; key += key_tile) {
    const Index length = std::min(key_tile, seen - key);
    pack_rows(k.slice(0, key, length), 1, k_tile, width);
    pack_rows(v.slice(0, key, length), 1, v_tile, width);
    for (Index row = 0; row < queries; row += panel) {
      const Index last = first + std::min(row + panel, queries) - 1;
      const Index some = std::min(visible.keys_of(last) - key, length);  // seen by a query
      const Index all = visible.keys_of(first + row) - key;              // seen by every query
      if (some <= 0) continue;

      // Scores are (keys, queries): what a lane computes is one query's.
      multiply<Accumulate::no>(some, panel, dimension, Left<Contiguous::inner>{k_tile, width},
                               q_panels + row * dimension, panel, scores, panel);
      for (Index j = std::max<Index>(all, 0); j < some; ++j) {
        const int lane = static_cast<int>(visible.first_query_of(key + j) - first - row);
        for (Index i = 0; i < panel; i += simd::lanes) {
          float* const at = scores + j * panel + i;
          simd::store(at, simd::select(simd::lane_numbers() + static_cast<int>(i) >= lane,
                                       simd::load(at), simd::broadcast(-infinity)));
        }
      }
      for (Index i = 0; i < panel; i += simd::lanes) {
        simd::store(factors + i,
                    take_scores(carries[(row + i) / simd::lanes], scores + i, panel, some));
      }
      for (Index i = 0; i < std::min(panel, queries - row); ++i) {
        for (float* at = o_tile + (row + i) * width; at < o_tile + (row + i + 1) * width;
             at += simd::lanes) {
          simd::store(at, simd::load(at) * factors[i]);
        }
      }
      multiply<Accumulate::yes>(panel, width, some, Left<Contiguous::row>{scores, panel}, v_tile,
                                width, o_tile + row * width, width);
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

}  // namespace trilith::inline v0::ops
