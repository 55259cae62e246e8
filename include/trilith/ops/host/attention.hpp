// Attention on the host: out = softmax(scale · q kᵀ) v for each head, and its gradients.
//
// q and out: (batch, queries, heads, dimension); k and v: (batch, keys, kv_heads, dimension), where heads is
// a multiple of kv_heads and query head h reads key head h / (heads / kv_heads); lse and delta: (batch,
// heads, queries). Everything is float32, and strided in all but the last dimension. Outputs are overwritten
// unless said otherwise.
//
// Scores exist only as tiles: the softmax is online (Milakov and Gimelshein, arXiv:1805.02867; Dao et al.,
// arXiv:2205.14135), its carry of output, maximum and sum unnormalised until the last key, and the backward
// pass forms the weights again from lse. Results don't depend on the number of threads: a thread computes
// whole tiles of queries (forward) or whole heads of keys (backward), in ascending order.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/attention_backward_tiles.hpp>
#include <trilith/ops/host/attention_tiles.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/row_ranges.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops {

namespace tile {

// One head of a (batch, sequence, heads, dimension) tensor, as (sequence, dimension).
template <class T>
Matrix<T> head_of(View<T, 4> x, Index batch, Index head) {
  return {&x(batch, 0, head, 0), {x.extent(1), x.extent(3)}, {x.stride(1), 1}};
}

}  // namespace tile

// One hop: the keys k and values v, of which the queries see `ranges`. A hop that is not the first goes on
// from `carry`; one that is not the last leaves it, and out and lse alone.
inline void attention(const Host::Stream& stream, View<const float, 4> q, View<const float, 4> k,
                      View<const float, 4> v, const AttentionSettings& settings, const KeyRanges& ranges,
                      Hop hop, const AttentionCarry& carry, View<float, 4> out, View<float, 3> lse) {
  using tile::head_of;
  using tile::key_tile;
  using tile::query_tile;
  const Index queries = q.extent(1);
  const Index heads = q.extent(2);
  const Index dimension = q.extent(3);
  const Index width = round_up(dimension, simd::lanes);
  const Index group = heads / k.extent(2);
  const Index tiles = ceil_divide(queries, query_tile);
  const Index work = 2 * query_tile * k.extent(1) * dimension;
  const Index grain = parallel::grain(work, parallel::least_multiply_adds);
  stream.parallel_for(q.extent(0) * heads * tiles, grain, [&](Index begin, Index end) {
    const auto [o_tile, q_panels, k_tile, v_tile, scores] =
        tile::scratch(std::array{query_tile * width, query_tile * dimension, key_tile * width,
                                 key_tile * width, key_tile * tile::panel});
    for (Index item = begin; item < end; ++item) {
      const Index batch = item / (heads * tiles);
      const Index head = item / tiles % heads;
      // A late tile follows an early one, so that causal work is even over any part of a head's tiles.
      const Index turn = item % tiles;
      const Index first = (turn % 2 == 0 ? turn / 2 : tiles - 1 - turn / 2) * query_tile;
      const Index length = std::min(query_tile, queries - first);
      const tile::RowRanges see(ranges, first, length);
      if (see.hull().empty() && !hop.first && !hop.last) continue;

      const auto rows_of = [&](View<float, 3> x) { return x[batch][head].slice(0, first, length); };
      const auto carry_rows = [&]() -> tile::CarryRows {
        return {head_of(carry.out, batch, head).slice(0, first, length), rows_of(carry.maximum),
                rows_of(carry.sum)};
      };
      tile::TileCarry running(o_tile, length, width);
      if (hop.first) {
        running.begin(settings.has_sinks() ? settings.sinks(head) : -std::numeric_limits<float>::infinity());
      } else {
        running.load(carry_rows());
      }
      tile::attend(head_of(q, batch, head).slice(0, first, length), head_of(k, batch, head / group),
                   head_of(v, batch, head / group), settings, see, {q_panels, k_tile, v_tile, scores},
                   running);
      if (hop.last) {
        running.finish(head_of(out, batch, head).slice(0, first, length), rows_of(lse));
      } else {
        running.store(carry_rows());
      }
    }
  });
}

// All keys at once.
inline void attention(const Host::Stream& stream, View<const float, 4> q, View<const float, 4> k,
                      View<const float, 4> v, const AttentionSettings& settings, const KeyRanges& ranges,
                      View<float, 4> out, View<float, 3> lse) {
  attention(stream, q, k, v, settings, ranges, Hop{}, AttentionCarry{}, out, lse);
}

// delta = the row sums of d_out · out, which every hop of the backward pass needs.
inline void attention_delta(const Host::Stream& stream, View<const float, 4> out, View<const float, 4> d_out,
                            View<float, 3> delta) {
  const Index heads = out.extent(2);
  const Index grain = parallel::grain(out.extent(1) * out.extent(3));
  stream.parallel_for(out.extent(0) * heads, grain, [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      tile::row_dots(tile::head_of(d_out, item / heads, item % heads),
                     tile::head_of(out, item / heads, item % heads), delta[item / heads][item % heads]);
    }
  });
}

// One hop of the backward pass: what the keys k and values v, of which the queries see `ranges`, give to dq,
// and their own gradients. lse and delta are those of attention over all keys. dq gathers over the hops, from
// the first to the last, in itself. dk and dv are overwritten. Carry and room are for other devices.
inline void attention_backward(const Host::Stream& stream, View<const float, 4> q, View<const float, 4> k,
                               View<const float, 4> v, View<const float, 3> lse, View<const float, 3> delta,
                               View<const float, 4> d_out, const AttentionSettings& settings,
                               const KeyRanges& ranges, Hop hop, View<float, 4> /*dq_carry*/,
                               View<float, 4> dq, View<float, 4> dk, View<float, 4> dv,
                               Vector<std::int32_t> /*room*/ = {}) {
  using tile::head_of;
  using tile::key_tile;
  using tile::query_tile;
  const Index queries = q.extent(1);
  const Index keys = k.extent(1);
  const Index kv_heads = k.extent(2);
  const Index group = q.extent(2) / kv_heads;
  const Index dimension = q.extent(3);
  const Index width = round_up(dimension, simd::lanes);
  const Index work = 5 * group * queries * keys * dimension;
  const Index grain = parallel::grain(work, parallel::least_multiply_adds);
  stream.parallel_for(q.extent(0) * kv_heads, grain, [&](Index begin, Index end) {
    tile::BackwardTiles tiles(dimension);
    tile::KeyTile& key_part = tiles.keys;
    for (Index item = begin; item < end; ++item) {
      const Index batch = item / kv_heads;
      const Index kv_head = item % kv_heads;
      for (Index head = kv_head * group; hop.first && head < (kv_head + 1) * group; ++head) {
        const Matrix<float> cleared = head_of(dq, batch, head);
        for (Index i = 0; i < queries; ++i) std::fill_n(&cleared(i, 0), dimension, 0.0f);
      }
      for (key_part.first = 0; key_part.first < keys; key_part.first += key_tile) {
        key_part.length = std::min(key_tile, keys - key_part.first);
        const auto part_of = [&](auto x) {
          return head_of(x, batch, kv_head).slice(0, key_part.first, key_part.length);
        };
        key_part.begin(part_of(k), part_of(v), settings.scale, width);
        for (Index first = 0; first < queries; first += query_tile) {
          const Index rows = std::min(query_tile, queries - first);
          const tile::RowRanges see(ranges, first, rows);
          if (see.hull().within(key_part.first, key_part.length).empty()) continue;
          for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            const tile::QueryHead query_head{head_of(q, batch, head), head_of(d_out, batch, head),
                                             lse[batch][head], delta[batch][head], head_of(dq, batch, head)};
            tile::attend_backward(key_part, tiles.queries, query_head, settings, first, rows, see);
          }
        }
        tile::unpack_rows(key_part.dk, width, part_of(dk));
        tile::unpack_rows(key_part.dv, width, part_of(dv));
      }
    }
  });
}

// d_sinks (heads): a sink's weight in a query's softmax is e^(sink − lse), and its value is 0, so that the
// query gives it −weight · delta. Nothing comes of a query that sees neither a key nor a sink above −∞.
inline void attention_sinks_backward(const Host::Stream&, View<const float, 3> lse,
                                     View<const float, 3> delta, const AttentionSettings& settings,
                                     Accumulate accumulate, Vector<float> d_sinks) {
  for (Index head = 0; head < d_sinks.size(); ++head) {
    double sum = accumulate == Accumulate::yes ? double{d_sinks(head)} : 0.0;
    for (Index batch = 0; batch < lse.extent(0); ++batch) {
      for (Index i = 0; i < lse.extent(2); ++i) {
        if (lse(batch, head, i) == -std::numeric_limits<float>::infinity()) continue;
        sum -= std::exp(double{settings.sinks(head)} - double{lse(batch, head, i)}) *
               double{delta(batch, head, i)};
      }
    }
    d_sinks(head) = static_cast<float>(sum);
  }
}

}  // namespace trilith::inline v0::ops
