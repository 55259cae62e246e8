// Attention, backward: dq, in the same order whatever runs first.
//
// A block takes a tile of queries of one head, and steps over the tiles of keys that its queries see. Weights
// are computed again, so that no block adds to what another one does.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/attention_backward_tile.hpp>
#include <trilith/kernels/attention_backward_warp.hpp>
#include <trilith/kernels/gradient_store.hpp>
#include <trilith/kernels/hop_carry.hpp>
#include <trilith/kernels/score_gradient.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// Grid: (tiles of queries, heads, batch).
template <half T, AttentionBackwardTile tile, HopCarry carry>
struct AttentionBackwardQueries {
  static_assert(tile.stages == 1 || tile.stages == 2, "AttentionBackwardQueries: stages must be 1 or 2");
  static_assert(
      tile.rows <= tile.threads() && tile.warp_rows() <= simt::warp_size,
      "AttentionBackwardQueries: a thread must have one query at most, and a lane one of its warp's");

  static constexpr const char* name = "attention_backward_queries";
  static constexpr int threads = tile.threads();
  static constexpr int shared_bytes = tile.queries_shared_bytes();
  static constexpr int blocks_per_multiprocessor = blocks_of_all_registers(threads, shared_bytes);

  struct Params {
    HeadTensor<const T> q;        // (batch, queries, heads, dimension)
    HeadTensor<const T> k;        // (batch, keys, heads / group, dimension)
    HeadTensor<const T> v;        // (batch, keys, heads / group, dimension)
    HeadTensor<const T> d_out;    // (batch, queries, heads, dimension)
    PerQuery<const float> lse;    // (batch, heads, queries)
    PerQuery<const float> delta;  // (batch, heads, queries)
    KeyRanges ranges;             // (queries)
    HeadTensor<T> dq;             // (batch, queries, heads, dimension), of the last hop
    HeadTensor<float> carry_dq;   // (batch, queries, heads, dimension), where HopCarry is memory
    int queries;
    int dimension;      // a multiple of 8
    int group;          // query heads that share a key head
    float scale;        // of products q · k
    ScoreScale scores;  // from the same scale
    bool first_hop;     // where HopCarry is memory
    bool last_hop;
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

  using Facts = FactsTable<tile.rows>;

  // Constants where all keys come in one hop, so that nothing of a carry is compiled.
  static TRILITH_DEVICE bool is_first(const Params& p) { return carry == HopCarry::none || p.first_hop; }
  static TRILITH_DEVICE bool is_last(const Params& p) { return carry == HopCarry::none || p.last_hop; }

  template <class Lane>
  struct Block {
    Lane& lane;
    const Params& p;
    Rows q, d_out;
    simt::Shared<T> k_stages, v_stages;
    Scores d_scores;
    Facts facts;  // of the block's queries
    int first_query, head, batch;
    Warp warp;

    TRILITH_DEVICE Block(Lane& of, const Params& params)
        : lane(of),
          p(params),
          // Late queries, which a causal mask gives the most keys, begin first.
          first_query((of.grid().x - 1 - of.block().x) * tile.rows),
          head(of.block().y),
          batch(of.block().z),
          warp(Warp::of(of)) {
      q = {lane.shared(typename Rows::Storage{})};
      d_out = {lane.shared(typename Rows::Storage{})};
      k_stages = lane.shared(simt::Array<T, tile.stages * Columns::size>{});
      v_stages = lane.shared(simt::Array<T, tile.stages * Columns::size>{});
      if constexpr (tile.exchanges()) d_scores = {lane.shared(typename Scores::Storage{})};
      facts = Facts::take(lane);
    }

    TRILITH_DEVICE void run() {
      const int end_query = p.queries < first_query + tile.rows ? p.queries : first_query + tile.rows;
      const Interval range = tile_range(lane, p.ranges, first_query, end_query);
      if (range.empty() && !is_first(p) && !is_last(p)) return;
      const int end = range.empty() ? 0 : range.last;

      GradientPart dq;
      dq.clear();
      int key = range.empty() ? 0 : range.first / tile.columns * tile.columns;
      if (key < end) {
        copy_tile<threads>(lane, q, p.q.head(batch, head), first_query, p.queries, p.dimension);
        copy_tile<threads>(lane, d_out, p.d_out.head(batch, head), first_query, p.queries, p.dimension);
        fetch(key, end, 0);
        put_facts();
      }
      for (int turn = 0; key < end; turn ^= 1, key += tile.columns) {
        lane.wait_copies(simt::Pending<0>{});
        lane.barrier();
        if constexpr (tile.stages == 2) fetch(key + tile.columns, end, turn ^ 1);
        take(key, turn, dq);
        if constexpr (tile.stages == 1) {
          lane.barrier();
          fetch(key + tile.columns, end, 0);
        }
      }
      lane.barrier();  // nobody reads queries any more: gradients take their place
      put(dq);
    }

    TRILITH_DEVICE static Columns stage_of(const simt::Shared<T>& stages, int turn) {
      return {stages.part(tile.stages == 1 ? 0 : turn * Columns::size, Columns::size)};
    }

    // Starts the copies of the keys from `key` on, if they are before the end, and of their values. Beyond
    // the end they come as zeros: what lies there may be no number.
    TRILITH_DEVICE void fetch(int key, int end, int turn) const {
      if (key >= end) return;
      copy_tile<threads>(lane, stage_of(k_stages, turn), p.k.head(batch, head / p.group), key, end,
                         p.dimension);
      copy_tile<threads>(lane, stage_of(v_stages, turn), p.v.head(batch, head / p.group), key, end,
                         p.dimension);
      lane.commit_copies();
    }

    TRILITH_DEVICE void put_facts() const {
      if (lane.thread() >= tile.rows) return;
      const int query = first_query + lane.thread();
      QueryFacts own;
      if (query < p.queries) {
        own = QueryFacts::load(lane, p.lse.head(batch, head), p.delta.head(batch, head), p.ranges, query);
      }
      facts.put(lane, lane.thread(), own);
    }

    // What the warp's queries see of a tile.
    TRILITH_DEVICE TileSight sight_of(int first_key) const {
      const Interval seen = facts.seen(lane, warp.row + lane.index() % tile.warp_rows());
      return {lane.any(seen.meets(first_key, first_key + tile.columns)),
              lane.all(seen.covers(first_key, first_key + tile.columns))};
    }

    // Warps that share queries see the same, and so meet in the exchange, or all pass by.
    TRILITH_DEVICE void take(int first_key, int turn, GradientPart& dq) const {
      const TileSight seen = sight_of(first_key);
      if (!seen.some) return;
      const Columns k = stage_of(k_stages, turn);
      const Columns v = stage_of(v_stages, turn);
      ScorePart x;
      x.clear();
      warp.add_scores(lane, x, q, k, 0);
      TRILITH_UNROLL
      for (int strip = 0; strip < tile.warp_columns(); strip += tile.strip) {
        ScoreStrip y;
        y.clear();
        warp.add_scores(lane, y, d_out, v, strip);
        differentiate(x, y, strip, !seen.all, first_key);
        if constexpr (tile.exchanges()) {
          y.store(lane, d_scores, warp.row, warp.score_column + strip);
        } else {
          warp.add_product(lane, dq, y, 0, k, strip);
        }
      }
      if constexpr (tile.exchanges()) {
        warp.exchange(lane);
        warp.add_product(lane, dq, d_scores, k);
      }
    }

    // Products q · k become weights, and, in the strip of columns from `strip` on, weights' gradients those
    // of the scores.
    TRILITH_DEVICE void differentiate(ScorePart& x, ScoreStrip& y, int strip, bool needs_mask,
                                      int first_key) const {
      const bool capped = p.scores.cap > 0;
      const int key = first_key + strip;
      if (needs_mask) {
        capped ? differentiate<true, true>(x, y, strip, key) : differentiate<true, false>(x, y, strip, key);
      } else {
        capped ? differentiate<false, true>(x, y, strip, key) : differentiate<false, false>(x, y, strip, key);
      }
    }
    template <bool masked, bool capped>
    TRILITH_DEVICE void differentiate(ScorePart& x, ScoreStrip& y, int strip, int first_key) const {
      const int key = first_key + warp.score_column + lane.index() % 4 * 2;
      TRILITH_UNROLL
      for (int half = 0; half < 2 * ScorePart::blocks; ++half) {
        const int at = warp.row + 8 * half + lane.index() / 4;
        const float lse_log2 = lane.load(facts.lse_log2, at);
        const float delta = lane.load(facts.delta, at);
        Interval seen;
        if constexpr (masked) seen = facts.seen(lane, at);
        TRILITH_UNROLL
        for (int n = 0; n < ScoreStrip::columns / 8; ++n) {
          TRILITH_UNROLL
          for (int i = 0; i < 2; ++i) {
            const int of = key + 8 * n + i;
            const bool visible = !masked || seen.has(of);
            differentiate_score<capped>(lane, p.scores, lse_log2, delta, visible,
                                        x.x[half / 2][strip / 8 + n][half % 2 * 2 + i],
                                        y.x[half / 2][n][half % 2 * 2 + i]);
          }
        }
      }
    }

    template <class G>
    TRILITH_DEVICE GradientRows<G> rows_of(const HeadTensor<G>& gradients) const {
      return {gradients.head(batch, head), first_query + warp.row, warp.width_column, p.queries, p.dimension};
    }

    // scale · dq, with what earlier hops gave.
    TRILITH_DEVICE void put(const GradientPart& dq) const {
      const auto room = warp.room(lane, q);
      room.put(lane, dq, p.scale);
      if (!is_first(p)) room.add(lane, rows_of(p.carry_dq));
      if (is_last(p)) {
        room.store(lane, rows_of(p.dq));
      } else {
        room.store(lane, rows_of(p.carry_dq));
      }
    }
  };
};

}  // namespace trilith::inline v0::kernels
