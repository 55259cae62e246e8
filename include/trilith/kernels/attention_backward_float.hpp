// Attention in float32, backward: one kernel for dq and one for dk and dv, each of which computes the scores
// anew, so that nothing is added by atomics and results repeat. See attention_float_tile.hpp.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/attention_float_tile.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// delta = the row sums of d_out · out. Grid: tiles of queries, heads, batch.
struct AttentionDeltaFloat : FloatAttention {
  static constexpr const char* name = "attention_delta_float";
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_multiprocessor = 8;

  struct Params {
    HeadTensor<const float> out;    // (batch, queries, heads, dimension)
    HeadTensor<const float> d_out;  // (batch, queries, heads, dimension)
    PerQuery<float> delta;          // (batch, heads, queries)
    int queries;
    int dimension;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const StridedRows<const float> out = p.out.head(lane.block().z, lane.block().y);
    const StridedRows<const float> d_out = p.d_out.head(lane.block().z, lane.block().y);
    for (int r = 0; r < 4; ++r) {
      const int query = lane.block().x * own + lane.warp() * 4 + r;
      if (query >= p.queries) return;
      float sum = 0;
      for (int column = lane.index(); column < p.dimension; column += simt::warp_size) {
        sum += lane.load(out.elements, query * out.stride + column) *
               lane.load(d_out.elements, query * d_out.stride + column);
      }
      sum = warp_reduce(lane, sum, Sum{});
      if (lane.index() == 0) lane.store(p.delta.head(lane.block().z, lane.block().y), query, sum);
    }
  }
};

// What the two kernels of the backward pass are given.
struct AttentionBackwardFloatParams {
  HeadTensor<const float> q;      // (batch, queries, heads, dimension)
  HeadTensor<const float> k;      // (batch, keys, heads / group, dimension)
  HeadTensor<const float> v;      // (batch, keys, heads / group, dimension)
  HeadTensor<const float> d_out;  // (batch, queries, heads, dimension)
  PerQuery<const float> lse;      // (batch, heads, queries)
  PerQuery<const float> delta;    // (batch, heads, queries)
  HeadTensor<float> dq_from;      // (batch, queries, heads, dimension): what dq goes on from; empty: zeros
  HeadTensor<float> dq_to;        // (batch, queries, heads, dimension)
  HeadTensor<float> dk;           // (batch, keys, heads / group, dimension): overwritten
  HeadTensor<float> dv;           // (batch, keys, heads / group, dimension): overwritten
  KeyRanges ranges;               // (queries)
  int queries;
  int keys;
  int dimension;
  int group;  // query heads of a key head
  ScoreSettings settings;
};

// Grid: tiles of queries, heads, batch.
template <int Width>
struct AttentionBackwardQueriesFloat : FloatAttention {
  static constexpr const char* name = "attention_backward_queries_float";
  static constexpr int shared_bytes = FloatRows<Width>::bytes(2 * own + 2 * tile) + weight_bytes;
  static constexpr int blocks_per_multiprocessor = blocks_of_all_registers(threads, shared_bytes);
  using Params = AttentionBackwardFloatParams;

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const FloatRows<Width> q{lane.shared(Storage<own>{})};
    const FloatRows<Width> d_out{lane.shared(Storage<own>{})};
    const FloatRows<Width> k{lane.shared(Storage<tile>{})};
    const FloatRows<Width> v{lane.shared(Storage<tile>{})};
    const simt::Shared<float> weights = lane.shared(Weights{});
    const int batch = lane.block().z;
    const int head = lane.block().y;
    const int first = lane.block().x * own;
    const int row = lane.warp() * 4;
    const Interval seen =
        tile_range(lane, p.ranges, first, own < p.queries - first ? first + own : p.queries);
    q.template load<own, warps>(lane, p.q.head(batch, head), first, p.queries, p.dimension);
    d_out.template load<own, warps>(lane, p.d_out.head(batch, head), first, p.queries, p.dimension);

    float lse[4];
    float delta[4];
    std::int32_t from[4];
    std::int32_t to[4];
    WarpRows<Width> dq;
    dq.clear();
    TRILITH_UNROLL
    for (int r = 0; r < 4; ++r) {
      const int query = first + row + r;
      const bool there = query < p.queries;
      from[r] = there ? lane.load(p.ranges.first, query) : 0;
      to[r] = there ? lane.load(p.ranges.last, query) : 0;
      lse[r] = there ? lane.load(p.lse.head(batch, head), query) : 0.0f;
      delta[r] = there ? lane.load(p.delta.head(batch, head), query) : 0.0f;
      if (there && p.dq_from.elements.size > 0) {
        dq.load(lane, r, p.dq_from.head(batch, head), query, p.dimension);
      }
    }

    for (int key = seen.first / tile * tile; key < seen.last; key += tile) {
      lane.barrier();
      k.template load<tile, warps>(lane, p.k.head(batch, head / p.group), key, seen.last, p.dimension);
      v.template load<tile, warps>(lane, p.v.head(batch, head / p.group), key, seen.last, p.dimension);
      lane.barrier();
      TRILITH_UNROLL
      for (int r = 0; r < 4; ++r) {
        const int own_key = key + lane.index();
        const float score = p.settings.score(q.dot(lane, row + r, k, lane.index(), p.dimension));
        const float d_weight = d_out.dot(lane, row + r, v, lane.index(), p.dimension);
        const bool sees = own_key >= from[r] && own_key < to[r];
        const float weight = sees ? lane.exp2((score - lse[r]) * log2_e) : 0.0f;
        lane.store(weights, (row + r) * tile + lane.index(),
                   sees ? p.settings.gradient(score, weight * (d_weight - delta[r])) : 0.0f);
      }
      lane.sync_warp();
      dq.add_product(lane, weights, row, k, p.dimension);
    }

    TRILITH_UNROLL
    for (int r = 0; r < 4; ++r) {
      const int query = first + row + r;
      if (query < p.queries) dq.store(lane, r, p.dq_to.head(batch, head), query, p.dimension);
    }
  }

 private:
  template <int Rows>
  using Storage = typename FloatRows<Width>::template Storage<Rows>;
};

// Grid: tiles of keys, heads of keys, batch.
template <int Width>
struct AttentionBackwardKeysFloat : FloatAttention {
  static constexpr const char* name = "attention_backward_keys_float";
  static constexpr int shared_bytes = FloatRows<Width>::bytes(2 * own + 2 * tile) + 2 * weight_bytes;
  static constexpr int blocks_per_multiprocessor = blocks_of_all_registers(threads, shared_bytes);
  using Params = AttentionBackwardFloatParams;

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const FloatRows<Width> k{lane.shared(Storage<own>{})};
    const FloatRows<Width> v{lane.shared(Storage<own>{})};
    const FloatRows<Width> q{lane.shared(Storage<tile>{})};
    const FloatRows<Width> d_out{lane.shared(Storage<tile>{})};
    const simt::Shared<float> weights = lane.shared(Weights{});
    const simt::Shared<float> d_products = lane.shared(Weights{});
    const int batch = lane.block().z;
    const int kv_head = lane.block().y;
    const int first = lane.block().x * own;
    const int row = lane.warp() * 4;
    k.template load<own, warps>(lane, p.k.head(batch, kv_head), first, p.keys, p.dimension);
    v.template load<own, warps>(lane, p.v.head(batch, kv_head), first, p.keys, p.dimension);

    WarpRows<Width> dk;
    WarpRows<Width> dv;
    dk.clear();
    dv.clear();
    for (int query = 0; query < p.queries; query += tile) {
      const int own_query = query + lane.index();
      const bool there = own_query < p.queries;
      const std::int32_t from = there ? lane.load(p.ranges.first, own_query) : 0;
      const std::int32_t to = there ? lane.load(p.ranges.last, own_query) : 0;
      if (!lane.any(from < to && from < first + own && to > first)) continue;
      for (int head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head) {
        lane.barrier();
        q.template load<tile, warps>(lane, p.q.head(batch, head), query, p.queries, p.dimension);
        d_out.template load<tile, warps>(lane, p.d_out.head(batch, head), query, p.queries, p.dimension);
        lane.barrier();
        const float lse = there ? lane.load(p.lse.head(batch, head), own_query) : 0.0f;
        const float delta = there ? lane.load(p.delta.head(batch, head), own_query) : 0.0f;
        TRILITH_UNROLL
        for (int r = 0; r < 4; ++r) {
          const int key = first + row + r;
          const float score = p.settings.score(k.dot(lane, row + r, q, lane.index(), p.dimension));
          const float d_weight = v.dot(lane, row + r, d_out, lane.index(), p.dimension);
          const bool seen = key >= from && key < to;
          const float weight = seen ? lane.exp2((score - lse) * log2_e) : 0.0f;
          lane.store(weights, (row + r) * tile + lane.index(), weight);
          lane.store(d_products, (row + r) * tile + lane.index(),
                     seen ? p.settings.gradient(score, weight * (d_weight - delta)) : 0.0f);
        }
        lane.sync_warp();
        dv.add_product(lane, weights, row, d_out, p.dimension);
        dk.add_product(lane, d_products, row, q, p.dimension);
      }
    }

    TRILITH_UNROLL
    for (int r = 0; r < 4; ++r) {
      const int key = first + row + r;
      if (key >= p.keys) continue;
      dk.store(lane, r, p.dk.head(batch, kv_head), key, p.dimension);
      dv.store(lane, r, p.dv.head(batch, kv_head), key, p.dimension);
    }
  }

 private:
  template <int Rows>
  using Storage = typename FloatRows<Width>::template Storage<Rows>;
};

}  // namespace trilith::inline v0::kernels
