// Attention, forward: out = softmax(scale · q kᵀ) v over the keys of one hop.
//
// A block takes a tile of queries of one head, and its warps split them. Tiles of keys and of values come
// through a ring of `stages` places in shared memory: step 2i takes the keys of the i-th tile, step 2i + 1
// its values, and each begins with the copy of the step that is stages - 1 later, into the place of the step
// before it. Scores, weights and output stay in registers; the softmax is online (Dao, arXiv:2307.08691).
//
// Tiles go from the last that a query of the block sees to the first. A warp skips the products of one that
// none of its queries sees, and hides nothing in one that all of them see.
#pragma once

#include <cmath>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/accumulators.hpp>
#include <trilith/kernels/attention_tile.hpp>
#include <trilith/kernels/online_softmax.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// Grid: tiles of queries, heads, batch.
template <half T, AttentionTile tile>
struct AttentionForward {
  static_assert(tile.rows % (16 * tile.warps) == 0 && tile.columns % 16 == 0 && tile.stages >= 2,
                "AttentionForward: warps take rows and keys by 16, and keys and values need a stage each");

  static constexpr const char* name = "attention_forward";
  static constexpr int threads = tile.threads();
  static constexpr int shared_bytes = tile.shared_bytes();
  // No blocks_per_multiprocessor: with any, ptxas spills on sm_100 at width 128.

  struct Params {
    HeadTensor<const T> q;            // (batch, queries, heads, dimension)
    HeadTensor<const T> k;            // (batch, keys, heads / group, dimension)
    HeadTensor<const T> v;            // (batch, keys, heads / group, dimension)
    HeadTensor<T> out;                // (batch, queries, heads, dimension): written by the last hop
    PerQuery<float> lse;              // (batch, heads, queries): written by the last hop
    HeadTensor<float> carry_out;      // (batch, queries, heads, dimension): between hops
    PerQuery<float> carry_maximum;    // (batch, heads, queries)
    PerQuery<float> carry_sum;        // (batch, heads, queries)
    KeyRanges ranges;                 // (queries)
    simt::Global<const float> sinks;  // (heads), or empty
    int queries;
    int dimension;  // a multiple of 8
    int group;      // query heads of a key head
    ScoreScale scale;
    bool first_hop;
    bool last_hop;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const QueryTile queries{lane.shared(typename QueryTile::Storage{})};
    const simt::Shared<T> ring = lane.shared(simt::Array<T, tile.stages * KeyTile::size>{});
    const int batch = lane.block().z;
    const int head = lane.block().y;
    // Blocks start in the order of their numbers: first the late queries, to which a causal mask gives the
    // most keys.
    const int first = (lane.grid().x - 1 - lane.block().x) * tile.rows;
    const int warp_row = lane.warp() * warp_rows;

    const TileRange seen = range_of(lane, p, first, tile.rows);
    if (seen.empty() && !p.first_hop && !p.last_hop) return;
    copy_tile<threads>(lane, queries, p.q.head(batch, head), first, p.queries, p.dimension);
    const auto seen_by_warps = lane.shared(simt::Array<std::int32_t, 4 * tile.warps>{});
    put_warp_range(lane, p, first + warp_row, seen_by_warps);
    const int kv_head = head / p.group;
    const StridedRows<const T> k = p.k.head(batch, kv_head);
    const StridedRows<const T> v = p.v.head(batch, kv_head);
    const int last_tile = seen.empty() ? -1 : (seen.last - 1) / tile.columns;
    const int steps = seen.empty() ? 0 : 2 * (last_tile - seen.first / tile.columns + 1);

    // Rows of keys beyond those that are seen come as zeros: what lies there may be no number.
    const auto copy_step = [&](int step) {
      if (step < steps) {
        const KeyTile to{ring, step % tile.stages * KeyTile::size};
        copy_tile<threads>(lane, to, step % 2 == 0 ? k : v, (last_tile - step / 2) * tile.columns, seen.last,
                           p.dimension);
      }
      lane.commit_copies();
    };
    const auto begin_step = [&](int step) -> KeyTile {
      lane.wait_copies(simt::Pending<tile.stages - 2>{});
      lane.barrier();
      copy_step(step + tile.stages - 1);
      return {ring, step % tile.stages * KeyTile::size};
    };

    TRILITH_UNROLL
    for (int step = 0; step < tile.stages - 1; ++step) copy_step(step);
    Softmax softmax;
    Output out;
    begin(lane, p, first + warp_row, softmax, out);
    for (int step = 0; step < steps; step += 2) {
      const int key = (last_tile - step / 2) * tile.columns;
      // From shared memory, where it takes no registers.
      const auto seen_by_warp = lane.load(seen_by_warps, 4 * lane.warp(), simt::Width<4>{});
      const bool some = key < seen_by_warp[1] && key + tile.columns > seen_by_warp[0];
      const bool all = key >= seen_by_warp[2] && key + tile.columns <= seen_by_warp[3];
      if (!some) {
        begin_step(step);
        begin_step(step + 1);
        continue;
      }
      const KeyTile keys = begin_step(step);
      Scores scores;
      scores.clear();
      multiply<tile.width>(
          lane, scores, [&](int block, int at) { return load_a(lane, queries, warp_row + 16 * block, at); },
          [&](int at, int column) { return load_b(lane, keys, at, column); });
      const KeyTile values = begin_step(step + 1);
      if (p.scale.cap > 0) cap_scores(lane, scores, p.scale);
      if (!all) hide(lane, p, first + warp_row, key, scores);
      softmax.take(lane, scores, p.scale.log2_unit, out);
      multiply<tile.columns>(
          lane, out, [&](int block, int at) { return scores.template as_a<T>(block, at); },
          [&](int at, int column) { return load_b_transposed(lane, values, at, column); });
    }
    lane.wait_copies(simt::Pending<0>{});
    lane.barrier();
    finish(lane, p, first, queries, softmax, out);
  }

 private:
  static constexpr int warp_rows = tile.rows / tile.warps;
  static constexpr int blocks = warp_rows / 16;

  using QueryTile = SharedTile<T, tile.rows, tile.width>;
  using KeyTile = SharedTile<T, tile.columns, tile.width>;
  using Scores = Accumulators<blocks, tile.columns>;
  using Output = Accumulators<blocks, tile.width>;
  using Softmax = OnlineSoftmax<blocks>;

  template <class Lane>
  static TRILITH_DEVICE TileRange range_of(Lane& lane, const Params& p, int first, int rows) {
    return tile_range(lane, p.ranges, first, rows < p.queries - first ? first + rows : p.queries);
  }

  // What the warp's queries see, as a TileRange has it.
  template <class Lane>
  static TRILITH_DEVICE void put_warp_range(Lane& lane, const Params& p, int query,
                                            const simt::Shared<std::int32_t>& to) {
    const TileRange seen = range_of(lane, p, query, warp_rows);
    if (lane.index() == 0) {
      lane.store(to, 4 * lane.warp(),
                 simt::Pack<std::int32_t, 4>{{seen.first, seen.last, seen.all_first, seen.all_last}});
    }
    lane.sync_warp();
  }

  // `query`: the warp's first.
  template <class Lane>
  static TRILITH_DEVICE void hide(Lane& lane, const Params& p, int query, int key, Scores& scores) {
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const int own = query + query_of_row(lane.index(), row);
      const bool exists = own < p.queries;
      const int first = exists ? lane.load(p.ranges.first, own) : 0;
      const int last = exists ? lane.load(p.ranges.last, own) : 0;
      hide_scores(lane, scores, row, first - key, last - key);
    }
  }

  template <class Lane>
  static TRILITH_DEVICE void begin(Lane& lane, const Params& p, int query, Softmax& softmax, Output& out) {
    const int batch = lane.block().z;
    const int head = lane.block().y;
    if (p.first_hop) {
      const float sink = p.sinks.size > 0 ? lane.load(p.sinks, head) : minus_infinity;
      softmax.begin(lane, sink * p.scale.per_unit);
      out.clear();
      return;
    }
    const auto carried = p.carry_out.head(batch, head);
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const int own = query + query_of_row(lane.index(), row);
      const bool exists = own < p.queries;
      softmax.maximum[row] =
          exists ? lane.load(p.carry_maximum.head(batch, head), own) * p.scale.per_unit : minus_infinity;
      // The sum is the quad's, of which its first lane begins with all.
      softmax.sum[row] =
          exists && lane.index() % 4 == 0 ? lane.load(p.carry_sum.head(batch, head), own) : 0.0f;
      TRILITH_UNROLL
      for (int n = 0; n < tile.width / 8; ++n) {
        const int column = 8 * n + lane.index() % 4 * 2;
        simt::Pack<float, 2> pair{{0, 0}};
        if (exists && column < p.dimension)
          pair = lane.load(carried.elements, own * carried.stride + column, simt::Width<2>{});
        out.x[row / 2][n][row % 2 * 2] = pair[0];
        out.x[row / 2][n][row % 2 * 2 + 1] = pair[1];
      }
    }
  }

  // `first`: the block's first query. Output goes through the warp's rows of the tile of queries, which only
  // it reads.
  template <class Lane>
  static TRILITH_DEVICE void finish(Lane& lane, const Params& p, int first, const QueryTile& queries,
                                    Softmax& softmax, Output& out) {
    const int batch = lane.block().z;
    const int head = lane.block().y;
    const int warp_row = lane.warp() * warp_rows;
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const float sum = warp_reduce<4>(lane, softmax.sum[row], Sum{});
      const float maximum = softmax.maximum[row] * p.scale.unit;
      const int own = first + warp_row + query_of_row(lane.index(), row);
      const bool mine = lane.index() % 4 == 0 && own < p.queries;
      if (p.last_hop) {
        const float inverse = sum > 0 ? quick_quotient(1.0f, sum) : 0.0f;
        for_row(out, row, [&](float& x) { x *= inverse; });
        if (mine) lane.store(p.lse.head(batch, head), own, maximum + std::log(sum));
      } else if (mine) {
        lane.store(p.carry_maximum.head(batch, head), own, maximum);
        lane.store(p.carry_sum.head(batch, head), own, sum);
      }
    }
    if (p.last_hop) {
      out.store(lane, queries, warp_row, 0);
      lane.sync_warp();
      store_rows<warp_rows>(lane, queries, warp_row, p.out.head(batch, head), first + warp_row, p.queries,
                            p.dimension);
    } else {
      store_carry(lane, p.carry_out.head(batch, head), p, first + warp_row, out);
    }
  }

  // Of each row a quad stores 8 floats at a time, a sector.
  template <class Lane>
  static TRILITH_DEVICE void store_carry(Lane& lane, const StridedRows<float>& to, const Params& p, int query,
                                         const Output& out) {
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const int own = query + query_of_row(lane.index(), row);
      if (own >= p.queries) continue;
      TRILITH_UNROLL
      for (int n = 0; n < tile.width / 8; ++n) {
        const int column = 8 * n + lane.index() % 4 * 2;
        const simt::Accumulator& x = out.x[row / 2][n];
        if (column < p.dimension) {
          lane.store(to.elements, own * to.stride + column,
                     simt::Pack<float, 2>{{x[row % 2 * 2], x[row % 2 * 2 + 1]}});
        }
      }
    }
  }
};

}  // namespace trilith::inline v0::kernels
