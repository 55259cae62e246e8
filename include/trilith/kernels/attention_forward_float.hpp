// Attention in float32, forward: out = softmax(scale · q kᵀ) v over the keys of one hop. See
// attention_float_tile.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/attention_float_tile.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Grid: tiles of queries, heads, batch. The parameters are those of AttentionForward.
template <int Width>
struct AttentionForwardFloat : FloatAttention {
  static constexpr const char* name = "attention_forward_float";
  static constexpr int shared_bytes = FloatRows<Width>::bytes(own + 2 * tile) + weight_bytes;
  static constexpr int blocks_per_multiprocessor = blocks_of_all_registers(threads, shared_bytes);

  struct Params {
    HeadTensor<const float> q;        // (batch, queries, heads, dimension)
    HeadTensor<const float> k;        // (batch, keys, heads / group, dimension)
    HeadTensor<const float> v;        // (batch, keys, heads / group, dimension)
    HeadTensor<float> out;            // (batch, queries, heads, dimension): written by the last hop
    PerQuery<float> lse;              // (batch, heads, queries): written by the last hop
    HeadTensor<float> carry_out;      // (batch, queries, heads, dimension): between hops
    PerQuery<float> carry_maximum;    // (batch, heads, queries)
    PerQuery<float> carry_sum;        // (batch, heads, queries)
    KeyRanges ranges;                 // (queries)
    simt::Global<const float> sinks;  // (heads), or empty
    int queries;
    int dimension;
    int group;  // query heads of a key head
    ScoreSettings settings;
    bool first_hop;
    bool last_hop;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const FloatRows<Width> q{lane.shared(Storage<own>{})};
    const FloatRows<Width> k{lane.shared(Storage<tile>{})};
    const FloatRows<Width> v{lane.shared(Storage<tile>{})};
    const simt::Shared<float> weights = lane.shared(Weights{});
    const int batch = lane.block().z;
    const int head = lane.block().y;
    const int first = lane.block().x * own;
    const int row = lane.warp() * 4;
    const Interval seen =
        tile_range(lane, p.ranges, first, own < p.queries - first ? first + own : p.queries);
    if (seen.empty() && !p.first_hop && !p.last_hop) return;
    q.template load<own, warps>(lane, p.q.head(batch, head), first, p.queries, p.dimension);

    constexpr float nothing = -std::numeric_limits<float>::infinity();
    float maximum[4];
    float sum[4];  // of a lane's own keys
    std::int32_t from[4];
    std::int32_t to[4];
    WarpRows<Width> out;
    out.clear();
    TRILITH_UNROLL
    for (int r = 0; r < 4; ++r) {
      const int query = first + row + r;
      const bool there = query < p.queries;
      from[r] = there ? lane.load(p.ranges.first, query) : 0;
      to[r] = there ? lane.load(p.ranges.last, query) : 0;
      maximum[r] = p.sinks.size > 0 ? lane.load(p.sinks, head) : nothing;
      sum[r] = maximum[r] > nothing ? 1.0f : 0.0f;
      if (there && !p.first_hop) {
        maximum[r] = lane.load(p.carry_maximum.head(batch, head), query);
        sum[r] = lane.load(p.carry_sum.head(batch, head), query);
        out.load(lane, r, p.carry_out.head(batch, head), query, p.dimension);
      }
      if (lane.index() != 0) sum[r] = 0;
    }

    for (int key = seen.first / tile * tile; key < seen.last; key += tile) {
      lane.barrier();
      k.template load<tile, warps>(lane, p.k.head(batch, head / p.group), key, seen.last, p.dimension);
      v.template load<tile, warps>(lane, p.v.head(batch, head / p.group), key, seen.last, p.dimension);
      lane.barrier();
      TRILITH_UNROLL
      for (int r = 0; r < 4; ++r) {
        const int own_key = key + lane.index();
        float score = p.settings.score(q.dot(lane, row + r, k, lane.index(), p.dimension));
        if (own_key < from[r] || own_key >= to[r]) score = nothing;
        const float most = std::fmax(maximum[r], warp_reduce(lane, score, Maximum{}));
        const float base = most == nothing ? 0.0f : most;
        const float weight = lane.exp2((score - base) * log2_e);
        const float rescale = lane.exp2((maximum[r] - base) * log2_e);
        maximum[r] = most;
        sum[r] = sum[r] * rescale + weight;
        out.scale(r, rescale);
        lane.store(weights, (row + r) * tile + lane.index(), weight);
      }
      lane.sync_warp();
      out.add_product(lane, weights, row, v, p.dimension);
    }

    TRILITH_UNROLL
    for (int r = 0; r < 4; ++r) {
      const float total = warp_reduce(lane, sum[r], Sum{});
      const int query = first + row + r;
      if (query >= p.queries) continue;
      if (p.last_hop) {
        out.scale(r, total > 0 ? 1 / total : 0.0f);
        out.store(lane, r, p.out.head(batch, head), query, p.dimension);
        if (lane.index() == 0) {
          lane.store(p.lse.head(batch, head), query, maximum[r] + std::log(total));
        }
      } else {
        out.store(lane, r, p.carry_out.head(batch, head), query, p.dimension);
        if (lane.index() == 0) {
          lane.store(p.carry_maximum.head(batch, head), query, maximum[r]);
          lane.store(p.carry_sum.head(batch, head), query, total);
        }
      }
    }
  }

 private:
  template <int Rows>
  using Storage = typename FloatRows<Width>::template Storage<Rows>;
};

}  // namespace trilith::inline v0::kernels
