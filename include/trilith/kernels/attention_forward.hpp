// Attention, forward: out = softmax(scale · q kᵀ) v over the keys of one hop.
//
// A block takes a tile of queries of one head, and its warps split them. Tiles of keys and of values come
// through a ring of `stages` places in shared memory: step 2i takes the keys of the i-th tile, step 2i + 1
// its values, and each begins with the copy of the step that is stages - 1 later, into the place of the step
// before it. Scores, weights and output stay in registers; the softmax is online (Dao, arXiv:2307.08691).
//
// Tiles go from the last that a query of the block sees to the first. A warp skips the products of one of
// which none of its queries sees a key, and hides nothing in one that all of them see.
#pragma once

#include <cmath>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/accumulators.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/attention_tile.hpp>
#include <trilith/kernels/hop_carry.hpp>
#include <trilith/kernels/online_softmax.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/kernels/warp_queries.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// Grid: tiles of queries, heads, batch.
template <half T, AttentionTile tile, HopCarry carry>
struct AttentionForward {
  static_assert(tile.rows % (16 * tile.warps) == 0 && tile.columns % 16 == 0 && tile.stages >= 2,
                "AttentionForward: warps take rows and keys by 16, and keys and values need a stage each");

  static constexpr const char* name = "attention_forward";
  static constexpr int threads = tile.threads();
  static constexpr int shared_bytes = tile.shared_bytes();
  static constexpr int blocks_per_multiprocessor = blocks_of_all_registers(threads, shared_bytes);

  struct Params {
    HeadTensor<const T> q;          // (batch, queries, heads, dimension)
    HeadTensor<const T> k;          // (batch, keys, heads / group, dimension)
    HeadTensor<const T> v;          // (batch, keys, heads / group, dimension)
    HeadTensor<T> out;              // (batch, queries, heads, dimension): written by the last hop
    PerQuery<float> lse;            // (batch, heads, queries): written by the last hop
    HeadTensor<float> carry_out;    // (batch, queries, heads, dimension): where HopCarry is memory
    PerQuery<float> carry_maximum;  // (batch, heads, queries)
    PerQuery<float> carry_sum;      // (batch, heads, queries)
    VisiblePairs<tile.mask> visible;
    simt::Global<const float> sinks;  // (heads), or empty
    int queries;
    int dimension;  // a multiple of 8
    int group;      // query heads of a key head
    ScoreScale scale;
    bool first_hop;  // where HopCarry is memory
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

    const Interval range =
        tile_range(lane, p.visible, first, tile.rows < p.queries - first ? first + tile.rows : p.queries);
    if (range.empty() && !is_first(p) && !is_last(p)) return;
    copy_tile<threads>(lane, queries, p.q.head(batch, head), first, p.queries, p.dimension);
    const Queries own(lane, p.visible, first + warp_row, p.queries);
    const int kv_head = head / p.group;
    const int last_tile = range.empty() ? -1 : (range.last - 1) / tile.columns;
    const int steps = range.empty() ? 0 : 2 * (last_tile - range.first / tile.columns + 1);

    // Rows of keys beyond those that are seen come as zeros: what lies there may be no number. The head is
    // found anew for each step, so that its addresses take no registers between.
    const auto copy_step = [&](int step) {
      if (step < steps) {
        const KeyTile to{ring, step % tile.stages * KeyTile::size};
        copy_tile<threads>(lane, to, (step % 2 == 0 ? p.k : p.v).head(batch, uniform(lane, kv_head)),
                           (last_tile - step / 2) * tile.columns, range.last, p.dimension);
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
      if (!own.sight(lane, key, key + tile.columns).some) {
        // The warp's share of the block's copies. Scores under a condition would not fit in registers.
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
      if (!own.sight(lane, key, key + tile.columns).all) hide(lane, own, key, scores);
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
  using Queries = WarpQueries<tile.mask, tile.rows, warp_rows>;

  // Constants where all keys come in one hop, so that nothing of a carry is compiled.
  static TRILITH_DEVICE bool is_first(const Params& p) { return carry == HopCarry::none || p.first_hop; }
  static TRILITH_DEVICE bool is_last(const Params& p) { return carry == HopCarry::none || p.last_hop; }

  template <class Lane>
  static TRILITH_DEVICE void hide(Lane& lane, const Queries& own, int key, Scores& scores) {
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const Interval seen = own.seen_by(lane, query_of_row(lane.index(), row));
      hide_scores(lane, scores, row, seen.first - key, seen.last - key);
    }
  }

  template <class Lane>
  static TRILITH_DEVICE void begin(Lane& lane, const Params& p, int query, Softmax& softmax, Output& out) {
    const int batch = lane.block().z;
    const int head = lane.block().y;
    if (is_first(p)) {
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
      const auto own_row = carried.elements.from(own * carried.stride + column_of_four(lane));
      TRILITH_UNROLL
      for (int n = 0; n < tile.width / 8; n += 2) {
        simt::Pack<float, 4> four{{0, 0, 0, 0}};
        if (exists && has_four(lane, p, n)) four = lane.load(own_row, 8 * n, simt::Width<4>{});
        trade(lane, four);
        TRILITH_UNROLL
        for (int i = 0; i < 4; ++i) out.x[row / 2][n + i / 2][row % 2 * 2 + i % 2] = four[i];
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
    // Asked anew: else it, or addresses of rows, stay in registers all along.
    const int warp = uniform(lane, lane.warp());
    const int warp_row = warp * warp_rows;
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const float sum = warp_reduce<4>(lane, softmax.sum[row], Sum{});
      const float maximum = softmax.maximum[row] * p.scale.unit;
      const int own = first + warp_row + query_of_row(lane.index(), row);
      const bool mine = lane.index() % 4 == 0 && own < p.queries;
      if (is_last(p)) {
        const float inverse = sum > 0 ? quick_quotient(1.0f, sum) : 0.0f;
        for_row(out, row, [&](float& x) { x *= inverse; });
        if (mine) lane.store(p.lse.head(batch, head), own, maximum + std::log(sum));
      } else if (mine) {
        lane.store(p.carry_maximum.head(batch, head), own, maximum);
        lane.store(p.carry_sum.head(batch, head), own, sum);
      }
    }
    if (is_last(p)) {
      out.store(lane, queries, warp_row, 0);
      lane.sync_warp();
      store_rows<warp_rows>(lane, queries, warp_row, p.out.head(batch, head), first + warp_row, p.queries,
                            p.dimension);
    } else {
      store_carry(lane, p.carry_out.head(batch, head), p, first + warp_row, out);
    }
  }

  template <class Lane>
  static TRILITH_DEVICE void store_carry(Lane& lane, const StridedRows<float>& to, const Params& p, int query,
                                         const Output& out) {
    TRILITH_UNROLL
    for (int row = 0; row < Softmax::rows; ++row) {
      const int own = query + query_of_row(lane.index(), row);
      const auto own_row = to.elements.from(own * to.stride + column_of_four(lane));
      TRILITH_UNROLL
      for (int n = 0; n < tile.width / 8; n += 2) {
        simt::Pack<float, 4> four;
        TRILITH_UNROLL
        for (int i = 0; i < 4; ++i) four[i] = out.x[row / 2][n + i / 2][row % 2 * 2 + i % 2];
        trade(lane, four);
        if (own < p.queries && has_four(lane, p, n)) lane.store(own_row, 8 * n, four);
      }
    }
  }

  // A lane has two floats of each fragment of 8 columns, and four side by side go to and from memory at once.
  // So of two neighbours one moves those that both have of fragment n, the other those of n + 1: trade()
  // makes the one of the other, either way.
  template <class Lane>
  static TRILITH_DEVICE int column_of_four(const Lane& lane) {
    return lane.index() % 2 * 8 + lane.index() / 2 % 2 * 4;
  }
  template <class Lane>
  static TRILITH_DEVICE bool has_four(const Lane& lane, const Params& p, int n) {
    return 8 * (n + lane.index() % 2) < p.dimension;
  }
  template <class Lane>
  static TRILITH_DEVICE void trade(Lane& lane, simt::Pack<float, 4>& four) {
    const bool odd = lane.index() % 2 != 0;
    TRILITH_UNROLL
    for (int i = 0; i < 2; ++i) {
      const float got = lane.shuffle_xor(odd ? four[i] : four[i + 2], 1);
      four[i] = odd ? got : four[i];
      four[i + 2] = odd ? four[i + 2] : got;
    }
  }
};

}  // namespace trilith::inline v0::kernels
