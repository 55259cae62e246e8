// Attention of a tile of queries of one head: what one thread does at a time.
//
// A head is a (sequence, dimension) matrix of strided rows. Tiles are packed first: rows are filled up to
// `width` floats, the dimension rounded up to simd::lanes, with 0; what lies in rows beyond the last is never
// read into a result. The factor `scale` is taken in with q in both passes, so the backward pass forms the
// very scores, to the bit, whose log-sum-exp the forward pass took.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/mask/softmax_carry.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/row_ranges.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops::tile {

// For simd::lanes queries, one a lane.
using StripCarry = SoftmaxCarry<simd::Floats>;

// Takes in the scores of `keys` further keys, one row of lanes each, `stride` floats apart, and turns them
// into weights relative to the new maximum. Returns the factor that brings earlier weights to it. The maximum
// is taken in four chains, because one would wait for itself.
inline simd::Floats take_scores(StripCarry& carry, float* scores, Index stride, Index keys) {
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

  const simd::Floats shift = softmax_shift(maximum);
  simd::Floats sum{};
  for (key = 0; key < keys; ++key) {
    const simd::Floats weight = simd::exp(simd::load(scores + key * stride) - shift);
    simd::store(scores + key * stride, weight);
    sum += weight;
  }
  const SoftmaxMerge<simd::Floats> merged = merge(carry, {maximum, sum}, simd::exp);
  carry = merged.carry;
  return merged.factor_a;
}

// The scores of the queries of a strip, one a lane, with `keys` of a tile that begins with key `key`, one a
// row of panel floats: −∞ where the query does not see the key.
inline void hide(float* scores, Interval keys, Index key, const RowRanges& see, Index row) {
  const Interval core = see.core(row).within(key, keys.last);
  const auto hide_some = [&](Index first, Index last) {
    for (Index j = first; j < last; ++j) {
      float* const at = scores + j * panel;
      simd::store(at, simd::select(see.lanes_that_see(row, key + j), simd::load(at),
                                   simd::broadcast(-std::numeric_limits<float>::infinity())));
    }
  };
  if (core.empty()) return hide_some(keys.first, keys.last);
  hide_some(keys.first, core.first);
  hide_some(core.last, keys.last);
}

// Rows of a carry in memory: those of a tile of queries of one head.
struct CarryRows {
  Matrix<float> out;      // (queries, dimension)
  Vector<float> maximum;  // (queries)
  Vector<float> sum;      // (queries)
};

// One tile's carry, while it is worked on.
class TileCarry {
 public:
  TileCarry(float* out, Index queries, Index width) : out_(out), queries_(queries), width_(width) {}

  // sink: the logit of the head's sink, −∞ for none.
  void begin(float sink) {
    const float sum = sink > -std::numeric_limits<float>::infinity() ? 1.0f : 0.0f;
    for (StripCarry& strip : strips_) strip = {simd::broadcast(sink), simd::broadcast(sum)};
    std::fill_n(out_, round_up(queries_, simd::lanes) * width_, 0.0f);
  }

  void load(const CarryRows& from) {
    pack_rows(from.out, 1, out_, width_);
    for_each_strip([&](Index row, Index count) {
      strips_[row / simd::lanes] = {simd::load_first(&from.maximum(row), count),
                                    simd::load_first(&from.sum(row), count)};
    });
  }

  void store(const CarryRows& to) const {
    unpack_rows(out_, width_, to.out);
    for_each_strip([&](Index row, Index count) {
      simd::store_first(&to.maximum(row), strips_[row / simd::lanes].maximum, count);
      simd::store_first(&to.sum(row), strips_[row / simd::lanes].sum, count);
    });
  }

  // Takes in scores of the strip of queries that begins with `row`, and the values of their keys.
  void take(Index row, float* scores, Index keys, const float* values) {
    const simd::Floats factor = take_scores(strips_[row / simd::lanes], scores, panel, keys);
    float* const out = out_ + row * width_;
    for (Index r = 0; r < simd::lanes; ++r) {
      for (Index c = 0; c < width_; c += simd::lanes) {
        float* const at = out + r * width_ + c;
        simd::store(at, simd::load(at) * factor[r]);
      }
    }
    multiply<Accumulate::yes>(simd::lanes, width_, keys, Left<Contiguous::row>{scores, panel}, values, width_,
                              out, width_);
  }

  // out = the normalised output, lse = maximum + log(sum).
  void finish(Matrix<float> out, Vector<float> lse) {
    for (Index row = 0; row < queries_; ++row) {
      const StripCarry& carry = strips_[row / simd::lanes];
      const float sum = carry.sum[row % simd::lanes];
      const float inverse = sum > 0 ? 1 / sum : 0;
      lse(row) = carry.maximum[row % simd::lanes] + std::log(sum);
      for (float* at = out_ + row * width_; at < out_ + (row + 1) * width_; at += simd::lanes) {
        simd::store(at, simd::load(at) * inverse);
      }
    }
    unpack_rows(out_, width_, out);
  }

 private:
  template <class Body>
  void for_each_strip(Body&& body) const {
    for (Index row = 0; row < queries_; row += simd::lanes) {
      body(row, std::min(simd::lanes, queries_ - row));
    }
  }

  float* out_;  // (queries, width)
  Index queries_;
  Index width_;
  StripCarry strips_[query_tile / simd::lanes];
};

// c · tanh(x / c) of the scores of a strip of queries with `keys`.
inline void cap(float* scores, Interval keys, float soft_cap) {
  const float inverse = 1 / soft_cap;
  for (Index j = keys.first; j < keys.last; ++j) {
    float* const at = scores + j * panel;
    simd::store(at, simd::tanh(simd::load(at) * inverse) * soft_cap);
  }
}

// Room for packed tiles of queries, keys and values, and for their scores.
struct ForwardRoom {
  float* q_panels;  // (queries / panel, dimension, panel)
  float* k;         // (keys, width)
  float* v;         // (keys, width)
  float* scores;    // (keys, panel)
};

// Takes in, for the queries of a tile, the keys and values that they see.
inline void attend(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                   const AttentionSettings& settings, const RowRanges& see, const ForwardRoom& room,
                   TileCarry& carry) {
  const Index queries = q.extent(0);
  const Index dimension = q.extent(1);
  const Index width = round_up(dimension, simd::lanes);
  pack_transposed(q, settings.scale, room.q_panels);

  const Interval all = see.hull();
  for (Index key = all.first; key < all.last; key += key_tile) {
    const Index length = std::min(key_tile, all.last - key);
    pack_rows(k.slice(0, key, length), 1, room.k, width);
    pack_rows(v.slice(0, key, length), 1, room.v, width);
    for (Index row = 0; row < queries; row += panel) {
      // Scores are (keys, queries): what a lane computes is one query's.
      const PanelStrips seen = strips_of(see, row, queries, key, length);
      for_each_region(seen, [&](Interval keys, Index strip, Index strips) {
        multiply<Accumulate::no>(keys.size(), strips * simd::lanes, dimension,
                                 Left<Contiguous::inner>{room.k + keys.first * width, width},
                                 room.q_panels + row * dimension + strip * simd::lanes, panel,
                                 room.scores + keys.first * panel + strip * simd::lanes, panel);
      });
      for (Index strip = 0; strip < vectors; ++strip) {
        const Interval keys = seen[static_cast<std::size_t>(strip)];
        if (keys.empty()) continue;
        const Index first_row = row + strip * simd::lanes;
        float* const strip_scores = room.scores + strip * simd::lanes;
        if (settings.soft_cap > 0) cap(strip_scores, keys, settings.soft_cap);
        hide(strip_scores, keys, key, see, first_row);
        carry.take(first_row, strip_scores + keys.first * panel, keys.size(), room.v + keys.first * width);
      }
    }
  }
}

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

}  // namespace trilith::inline v0::ops::tile
