// Attention on the host: out = softmax(scale · q kᵀ) v for each head, and its gradients.
//
// q and out: (batch, queries, heads, dimension); k and v: (batch, keys, kv_heads, dimension), where heads is
// a multiple of kv_heads and query head h reads key head h / (heads / kv_heads); lse and delta: (batch,
// heads, queries). Everything is float32, and strided in all but the last dimension. Outputs are overwritten.
//
// Scores exist only as tiles: the softmax is online (Milakov and Gimelshein, arXiv:1805.02867; Dao et al.,
// arXiv:2205.14135), its carry of output, maximum and sum unnormalised until the last key, and the backward
// pass forms the weights again from lse. Results don't depend on the number of threads: a thread computes
// whole tiles of queries (forward) or whole heads of keys (backward), in ascending order.
#pragma once

#include <algorithm>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/attention_tiles.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops {

namespace tile {

// One head of a (batch, sequence, heads, dimension) tensor, as (sequence, dimension).
template <class T>
Matrix<T> head_of(View<T, 4> x, Index batch, Index head) {
  return {&x(batch, 0, head, 0), {x.extent(1), x.extent(3)}, {x.stride(1), 1}};
}

inline Visibility visibility(Mask mask, Index queries, Index keys) {
  return {mask == Mask::causal ? keys - queries : keys, keys};
}

}  // namespace tile

inline void attention(const Host::Stream& stream, View<const float, 4> q, View<const float, 4> k,
                      View<const float, 4> v, float scale, Mask mask, View<float, 4> out,
                      View<float, 3> lse) {
  const Index queries = q.extent(1);
  const Index heads = q.extent(2);
  const Index group = heads / k.extent(2);
  const tile::Visibility visible = tile::visibility(mask, queries, k.extent(1));
  const Index tiles = (queries + tile::query_tile - 1) / tile::query_tile;
  const Index work = 2 * tile::query_tile * k.extent(1) * q.extent(3);
  const Index grain = parallel::grain(work, parallel::least_multiply_adds);
  stream.parallel_for(q.extent(0) * heads * tiles, grain, [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index batch = item / (heads * tiles);
      const Index head = item / tiles % heads;
      // A late tile follows an early one, so that causal work is even over any part of a head's tiles.
      const Index turn = item % tiles;
      const Index first = (turn % 2 == 0 ? turn / 2 : tiles - 1 - turn / 2) * tile::query_tile;
      const Index length = std::min(tile::query_tile, queries - first);
      tile::attend(tile::head_of(q, batch, head).slice(0, first, length),
                   tile::head_of(k, batch, head / group), tile::head_of(v, batch, head / group), scale, first,
                   visible, tile::head_of(out, batch, head).slice(0, first, length),
                   lse[batch][head].slice(0, first, length));
    }
  });
}

// out and lse are those of attention() over all keys, of which k and v may be a part: then dq is what this
// part gives to it. delta is scratch: it is left as the row sums of d_out · out.
inline void attention_backward(const Host::Stream& stream, View<const float, 4> q, View<const float, 4> k,
                               View<const float, 4> v, View<const float, 4> out, View<const float, 3> lse,
                               View<const float, 4> d_out, float scale, Mask mask, View<float, 3> delta,
                               View<float, 4> dq, View<float, 4> dk, View<float, 4> dv) {
  using tile::head_of;
  using tile::key_tile;
  using tile::query_tile;
  const Index keys = k.extent(1);
  const Index kv_heads = k.extent(2);
  const Index group = q.extent(2) / kv_heads;
  const Index dimension = q.extent(3);
  const Index width = tile::round_up(dimension, simd::lanes);
  const tile::Visibility visible = tile::visibility(mask, q.extent(1), keys);
  const Index work = 5 * group * q.extent(1) * keys * dimension;
  const Index grain = parallel::grain(work, parallel::least_multiply_adds);
  stream.parallel_for(q.extent(0) * kv_heads, grain, [&](Index begin, Index end) {
    const auto pieces =
        tile::scratch({key_tile * dimension, key_tile * dimension, key_tile * width, key_tile * width,
                       key_tile * width, query_tile * width, query_tile * width, query_tile * width,
                       query_tile * key_tile, query_tile * key_tile});
    tile::KeyTile key_part{pieces[0], pieces[1], pieces[2], pieces[3], pieces[4], 0, 0};
    const tile::QueryTile query_part{pieces[5], pieces[6], pieces[7], pieces[8], pieces[9]};
    for (Index item = begin; item < end; ++item) {
      const Index batch = item / kv_heads;
      const Index kv_head = item % kv_heads;
      for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        tile::row_dots(head_of(d_out, batch, head), head_of(out, batch, head), delta[batch][head]);
        const Matrix<float> cleared = head_of(dq, batch, head);
        for (Index i = 0; i < cleared.extent(0); ++i) std::fill_n(&cleared(i, 0), dimension, 0.0f);
      }
      for (key_part.first = 0; key_part.first < keys; key_part.first += key_tile) {
        key_part.length = std::min(key_tile, keys - key_part.first);
        const auto k_slice = head_of(k, batch, kv_head).slice(0, key_part.first, key_part.length);
        const auto v_slice = head_of(v, batch, kv_head).slice(0, key_part.first, key_part.length);
        tile::pack_transposed(k_slice, 1, key_part.k_panels);
        tile::pack_transposed(v_slice, 1, key_part.v_panels);
        tile::pack_rows(k_slice, scale, key_part.k_rows, width);
        std::fill_n(key_part.dk, key_tile * width, 0.0f);
        std::fill_n(key_part.dv, key_tile * width, 0.0f);
        for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          const tile::QueryHead queries{head_of(q, batch, head), head_of(d_out, batch, head),
                                        lse[batch][head], delta[batch][head], head_of(dq, batch, head)};
          for (Index first = visible.first_query_of(key_part.first) / query_tile * query_tile;
               first < q.extent(1); first += query_tile) {
            tile::attend_backward(key_part, query_part, queries, scale, first, visible);
          }
        }
        tile::unpack_rows(key_part.dk, width,
                          head_of(dk, batch, kv_head).slice(0, key_part.first, key_part.length));
        tile::unpack_rows(key_part.dv, width,
                          head_of(dv, batch, kv_head).slice(0, key_part.first, key_part.length));
      }
    }
  });
}

}  // namespace trilith::inline v0::ops
