// Attention, backward: dk and dv.
//
// A block takes a tile of keys of one head, and steps over the tiles of queries that see it, for each query
// head of its group in turn; so sums over queries and over the group are made in one order, in registers.
// Scores are computed transposed, (keys, queries): what the weights and their gradients are after that is the
// left operand of the products that they take part in. Where tile.adds_dq, blocks also add to dq, in any
// order.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/attention_backward_tile.hpp>
#include <trilith/kernels/attention_backward_warp.hpp>
#include <trilith/kernels/gradient_store.hpp>
#include <trilith/kernels/score_gradient.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// Grid: (tiles of keys, key heads, batch). G: what dk and dv are stored as.
template <half T, class G, AttentionBackwardTile tile>
struct AttentionBackwardKeys {
  static_assert(std::is_same_v<G, float> || std::is_same_v<G, T>,
                "AttentionBackwardKeys: gradients are float or what the inputs are");
  static_assert(tile.stages == 1 || tile.stages == 2, "AttentionBackwardKeys: stages must be 1 or 2");
  static_assert(tile.columns <= tile.threads() && tile.columns % simt::warp_size == 0,
                "AttentionBackwardKeys: queries come by 32, and a thread must have one at most");

  static constexpr const char* name = "attention_backward_keys";
  static constexpr int threads = tile.threads();
  static constexpr int shared_bytes = tile.keys_shared_bytes();
  static constexpr int blocks_per_multiprocessor = blocks_of_all_registers(threads, shared_bytes);

  struct Params {
    HeadTensor<const T> q;        // (batch, queries, heads, dimension)
    HeadTensor<const T> k;        // (batch, keys, heads / group, dimension)
    HeadTensor<const T> v;        // (batch, keys, heads / group, dimension)
    HeadTensor<const T> d_out;    // (batch, queries, heads, dimension)
    PerQuery<const float> lse;    // (batch, heads, queries)
    PerQuery<const float> delta;  // (batch, heads, queries)
    VisiblePairs<tile.mask> visible;
    simt::Global<const std::int32_t> tiles;  // TileRanges of tiles of `columns` queries, for intervals
    HeadTensor<float> dq;  // (batch, queries, heads, dimension), added to where tile.adds_dq
    HeadTensor<G> dk;      // (batch, keys, heads / group, dimension)
    HeadTensor<G> dv;      // (batch, keys, heads / group, dimension)
    int queries;
    int keys;
    int dimension;      // a multiple of 8
    int group;          // query heads that share a key head
    float scale;        // of products q · k
    ScoreScale scores;  // from the same scale
    bool accumulate;    // add to dk and dv, which are float
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    Block<Lane> block(lane, p);
    block.run();
  }

 private:
  using Warp = BackwardWarp<T, tile>;
  using Rows = typename Warp::Rows;
  using Columns = typename Warp::Columns;
  using Scores = typename Warp::Scores;
  using ScorePart = typename Warp::ScorePart;
  using ScoreStrip = typename Warp::ScoreStrip;
  using GradientPart = typename Warp::GradientPart;

  // A tile of queries of one of the group's heads.
  struct Step {
    int head;  // in the group
    int query_tile;
  };

  // Of the queries of a step, in one of two places in turn.
  using Facts = FactsTable<2 * tile.columns>;

  static constexpr bool shares_d_scores = tile.exchanges() || tile.adds_dq;
  static constexpr int last_strip = tile.warp_columns() - tile.strip;

  template <class Lane>
  struct Block {
    Lane& lane;
    const Params& p;
    Rows k, v;
    simt::Shared<T> q_stages, d_out_stages;
    Scores weights, d_scores;
    Facts facts;
    int first_key, kv_head, batch;
    Warp warp;
    int first_tile, end_tile;
    int end_seen;  // of the keys that a query of these tiles sees

    TRILITH_DEVICE Block(Lane& of, const Params& params)
        : lane(of),
          p(params),
          first_key(of.block().x * tile.rows),
          kv_head(of.block().y),
          batch(of.block().z),
          warp(Warp::of(of)) {
      k = {lane.shared(typename Rows::Storage{})};
      v = {lane.shared(typename Rows::Storage{})};
      q_stages = lane.shared(simt::Array<T, tile.stages * Columns::size>{});
      d_out_stages = lane.shared(simt::Array<T, tile.stages * Columns::size>{});
      if constexpr (tile.exchanges()) weights = {lane.shared(typename Scores::Storage{})};
      if constexpr (shares_d_scores) d_scores = {lane.shared(typename Scores::Storage{})};
      facts = Facts::take(lane);
    }

    TRILITH_DEVICE void run() {
      find_tiles();
      Step current = seek(0, first_tile);
      if (current.head < p.group) {
        // Rows of keys beyond those that are seen come as zeros: what lies there may be no number, which
        // dq would take in.
        copy_tile<threads>(lane, k, p.k.head(batch, kv_head), first_key, end_seen, p.dimension);
        copy_tile<threads>(lane, v, p.v.head(batch, kv_head), first_key, p.keys, p.dimension);
        fetch(current, 0);
        put_facts(facts_of(current), 0);
      }

      GradientPart dk, dv;
      dk.clear();
      dv.clear();
      Step next = seek(current.head, current.query_tile + 1);
      for (int turn = 0; current.head < p.group; turn ^= 1) {
        lane.wait_copies(simt::Pending<0>{});
        lane.barrier();
        if constexpr (tile.stages == 2) fetch(next, turn ^ 1);
        const Step after = take(next, turn, dk, dv);
        if constexpr (tile.adds_dq) add_dq(current, turn);
        if constexpr (tile.stages == 1) {
          lane.barrier();
          fetch(next, 0);
        }
        current = next;
        next = after;
      }

      lane.barrier();  // nobody reads keys and values any more: gradients take their place
      put(dv, 1, p.dv.head(batch, kv_head));
      put(dk, p.scale, p.dk.head(batch, kv_head));
    }

    // Bounds of the tiles of queries that see a key of the block's.
    TRILITH_DEVICE void find_tiles() {
      if constexpr (tile.mask == HopMask::rectangle) {
        const SeenRectangle& seen = p.visible;
        first_tile = seen.queries.first / tile.columns;
        end_tile = seen.keys.meets(first_key, end_key()) ? ceil_divide(seen.queries.last, tile.columns) : 0;
        end_seen = seen.keys.last;
      } else {
        constexpr int most = std::numeric_limits<int>::max();
        int first = most;
        int end = 0;
        int last = 0;
        for (int each = lane.index(); each * tile.columns < p.queries; each += simt::warp_size) {
          if (!sees(each)) continue;
          first = each < first ? each : first;
          end = each + 1;
          last = range_of(each).last;  // which never falls
        }
        first_tile = uniform(lane, warp_reduce(lane, first, Minimum{}));
        end_tile = uniform(lane, warp_reduce(lane, end, Maximum{}));
        end_seen = uniform(lane, warp_reduce(lane, last, Maximum{}));
      }
    }

    // Whether one of the tile's queries may see one of the block's keys.
    TRILITH_DEVICE bool sees(int query_tile) const {
      if constexpr (tile.mask == HopMask::rectangle) {
        return true;  // within the bounds
      } else {
        return range_of(query_tile).meets(first_key, end_key());
      }
    }
    TRILITH_DEVICE Interval range_of(int query_tile) const {
      const auto range = lane.load(p.tiles, Index{query_tile} * 2, simt::Width<2>{});
      return {range[0], range[1]};
    }
    TRILITH_DEVICE int end_key() const {
      return p.keys < first_key + tile.rows ? p.keys : first_key + tile.rows;
    }

    // The first step from there on; past the last, its head is the group's end.
    TRILITH_DEVICE Step seek(int head, int query_tile) const {
      for (; head < p.group; ++head, query_tile = first_tile) {
        for (; query_tile < end_tile; ++query_tile) {
          if (lane.any(sees(query_tile))) return {head, query_tile};
        }
      }
      return {p.group, end_tile};
    }

    TRILITH_DEVICE int query_head(const Step& step) const { return kv_head * p.group + step.head; }

    TRILITH_DEVICE static Columns stage_of(const simt::Shared<T>& stages, int turn) {
      return {stages.part(tile.stages == 1 ? 0 : turn * Columns::size, Columns::size)};
    }

    // Starts the copies for a step, if there is one.
    TRILITH_DEVICE void fetch(const Step& step, int turn) const {
      if (step.head == p.group) return;
      const int first = step.query_tile * tile.columns;
      copy_tile<threads>(lane, stage_of(q_stages, turn), p.q.head(batch, query_head(step)), first, p.queries,
                         p.dimension);
      copy_tile<threads>(lane, stage_of(d_out_stages, turn), p.d_out.head(batch, query_head(step)), first,
                         p.queries, p.dimension);
      lane.commit_copies();
    }

    // Of this thread's query of a step.
    TRILITH_DEVICE QueryFacts facts_of(const Step& step) const {
      const int query = step.query_tile * tile.columns + lane.thread();
      if (step.head == p.group || lane.thread() >= tile.columns || query >= p.queries) return {};
      return QueryFacts::load(lane, p.lse.head(batch, query_head(step)),
                              p.delta.head(batch, query_head(step)), p.visible, query);
    }
    TRILITH_DEVICE void put_facts(const QueryFacts& query, int turn) const {
      if (lane.thread() < tile.columns) facts.put(lane, turn * tile.columns + lane.thread(), query);
    }

    // What the queries of a step see of the keys that begin with the block's row `row`, as many as a warp
    // has. Keys beyond the last are seen by none.
    TRILITH_DEVICE TileSight sight_of(int row, int turn) const {
      const int begin = first_key + row;
      const int end = begin + tile.warp_rows();
      bool some = false;
      bool all = true;
      TRILITH_UNROLL
      for (int at = 0; at < tile.columns; at += simt::warp_size) {
        const Interval seen = facts.seen(lane, turn * tile.columns + at + lane.index());
        some |= seen.meets(begin, end);
        all &= seen.covers(begin, end);
      }
      return {lane.any(some), lane.all(all)};
    }

    // Takes a step, and returns the one after the next. What the next one needs of global memory is read
    // before the last product, and so arrives while that is computed. Warps that share keys are seen alike,
    // and so meet in the exchange, or all pass by.
    TRILITH_DEVICE Step take(const Step& next, int turn, GradientPart& dk, GradientPart& dv) const {
      const Columns q = stage_of(q_stages, turn);
      const Columns d_out = stage_of(d_out_stages, turn);
      const TileSight seen = sight_of(warp.row, turn);
      ScoreStrip y;
      if (seen.some) {
        ScorePart x;
        x.clear();
        warp.add_scores(lane, x, k, q, 0);
        TRILITH_UNROLL
        for (int strip = 0; strip < tile.warp_columns(); strip += tile.strip) {
          y.clear();
          warp.add_scores(lane, y, v, d_out, strip);
          differentiate(x, y, strip, !seen.all, turn);
          if constexpr (shares_d_scores) {
            y.store(lane, d_scores, warp.row, warp.score_column + strip);
          }
          if constexpr (!tile.exchanges()) {
            warp.add_product(lane, dv, x, strip, d_out, strip);
            if (strip < last_strip) warp.add_product(lane, dk, y, 0, q, strip);
          }
        }
        if constexpr (tile.exchanges()) {
          x.store(lane, weights, warp.row, warp.score_column);
          warp.exchange(lane);
          warp.add_product(lane, dv, weights, d_out);
        }
      }
      const QueryFacts of_next = facts_of(next);
      const Step after = seek(next.head, next.query_tile + 1);
      if (seen.some) {
        if constexpr (tile.exchanges()) {
          warp.add_product(lane, dk, d_scores, q);
        } else {
          warp.add_product(lane, dk, y, 0, q, last_strip);
        }
      }
      put_facts(of_next, turn ^ 1);
      return after;
    }

    // Adds what the block's keys give to dq.
    TRILITH_DEVICE void add_dq(const Step& step, int turn) const {
      lane.barrier();  // all gradients of scores are there
      Warp::add_rows(lane, d_scores, k, p.scale,
                     GradientRows<float>{p.dq.head(batch, query_head(step)), step.query_tile * tile.columns,
                                         0, p.queries, p.dimension},
                     [&](int row) { return sight_of(row, turn).some; });
    }

    // Products q · k become weights, and, in the strip of columns from `strip` on, weights' gradients those
    // of the scores.
    TRILITH_DEVICE void differentiate(ScorePart& x, ScoreStrip& y, int strip, bool needs_mask,
                                      int turn) const {
      const bool capped = p.scores.cap > 0;
      if (needs_mask) {
        capped ? differentiate<true, true>(x, y, strip, turn) : differentiate<true, false>(x, y, strip, turn);
      } else {
        capped ? differentiate<false, true>(x, y, strip, turn)
               : differentiate<false, false>(x, y, strip, turn);
      }
    }
    template <bool masked, bool capped>
    TRILITH_DEVICE void differentiate(ScorePart& x, ScoreStrip& y, int strip, int turn) const {
      int key = lane.index() / 4;
      if constexpr (masked) key += uniform(lane, first_key + warp.row);  // anew, or it stays in a register
      TRILITH_UNROLL
      for (int n = 0; n < ScoreStrip::columns / 8; ++n) {
        const int at = turn * tile.columns + warp.score_column + strip + 8 * n + lane.index() % 4 * 2;
        const auto lse_log2 = lane.load(facts.lse_log2, at, simt::Width<2>{});
        const auto delta = lane.load(facts.delta, at, simt::Width<2>{});
        Interval seen[2];
        if constexpr (masked) {
          const auto first = lane.load(facts.first, at, simt::Width<2>{});
          const auto last = lane.load(facts.last, at, simt::Width<2>{});
          seen[0] = {first[0], last[0]};
          seen[1] = {first[1], last[1]};
        }
        TRILITH_UNROLL
        for (int b = 0; b < ScorePart::blocks; ++b) {
          TRILITH_UNROLL
          for (int i = 0; i < 4; ++i) {
            const int of = key + 16 * b + i / 2 * 8;
            const bool visible = !masked || seen[i % 2].has(of);
            differentiate_score<capped>(lane, p.scores, lse_log2[i % 2], delta[i % 2], visible,
                                        x.x[b][strip / 8 + n][i], y.x[b][n][i]);
          }
        }
      }
    }

    TRILITH_DEVICE void put(const GradientPart& gradients, float factor, const StridedRows<G>& to) const {
      const GradientRows<G> rows{to, first_key + warp.row, warp.width_column, p.keys, p.dimension};
      const auto room = warp.room(lane, k);
      room.put(lane, gradients, factor);
      if constexpr (std::is_same_v<G, float>) {
        if (p.accumulate) room.add(lane, rows);
      }
      room.store(lane, rows);
    }
  };
};

}  // namespace trilith::inline v0::kernels
