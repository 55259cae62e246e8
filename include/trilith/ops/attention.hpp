// What attention is told besides its tensors, on any device.
//
// Attention goes over the keys of a query in one hop or in several, as blocks of keys arrive from other
// ranks. Between hops a query's carry lies in memory, in float32 and not normalised, so that no error grows
// with the number of hops; the last hop normalises it. Backward, dq gathers over the hops in a float32 carry
// of its shape, which the last hop rounds to dq; one hop needs none.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>

namespace trilith::inline v0::ops {

struct AttentionSettings {
  // Of the scores q · k: positive, so that the largest product is the largest score, and finite.
  float scale = 1;
  float soft_cap = 0;  // c > 0: a score x becomes c · tanh(x / c); 0: it stays
  // (heads): of each head the logit of a sink, which takes its part of every query's softmax and gives
  // nothing; one of −∞ takes none. Empty: no sinks.
  Vector<const float> sinks = {};

  bool has_sinks() const { return sinks.size() > 0; }
};

// The queries [first_query, last_query) see the keys [first_key, last_key), and no others; all other queries
// see none.
struct SeenRectangle {
  std::int32_t first_query = 0;
  std::int32_t last_query = 0;
  std::int32_t first_key = 0;
  std::int32_t last_key = 0;
  friend bool operator==(const SeenRectangle&, const SeenRectangle&) = default;
};

// The keys that each query sees: those from first(i) up to, but not including, last(i). Among the queries
// that see any, neither falls as i rises. A query that sees none has out 0, lse −∞ (or its sink's logit) and
// gives no gradients.
struct KeyRanges {
  Vector<const std::int32_t> first;  // (queries)
  Vector<const std::int32_t> last;   // (queries)
  // The same pairs, where they are a rectangle: some devices are faster when they know.
  std::optional<SeenRectangle> rectangle = {};
};

// The rectangle of ranges in the host's memory, if they are one, also an empty one: so without a mask, and in
// a causal ring of zigzag or contiguous parts on all hops but the first, a rank's own.
inline std::optional<SeenRectangle> seen_rectangle(Vector<const std::int32_t> first,
                                                   Vector<const std::int32_t> last) {
  SeenRectangle rectangle;
  for (std::int32_t i = 0; i < first.size(); ++i) {
    if (first(i) >= last(i)) continue;
    if (rectangle.last_query == 0) rectangle = {i, i, first(i), last(i)};
    if (SeenRectangle{rectangle.first_query, i, first(i), last(i)} != rectangle) return {};
    ++rectangle.last_query;
  }
  return rectangle;
}

// The running softmax of each query.
struct AttentionCarry {
  View<float, 4> out;      // (batch, queries, heads, dimension): Σ e^(score − maximum) · v
  View<float, 3> maximum;  // (batch, heads, queries)
  View<float, 3> sum;      // (batch, heads, queries): Σ e^(score − maximum)
};

// Whether a hop begins the carry, instead of going on from it, and whether it ends with the results, instead
// of leaving the carry.
struct Hop {
  bool first = true;
  bool last = true;
};

// Whether attention on streams of this type takes heads of T of this dimension. Kernels hold a row of the
// output in registers, and load 16 bytes at once in 16 bits.
template <class Stream, class T>
constexpr bool attention_takes_heads_of(Index dimension) {
  return !kernel_stream<Stream> || (dimension <= 256 && (!half<T> || dimension % 8 == 0));
}

namespace detail {

// Throws where scale or soft cap are not what AttentionSettings says.
inline void require_score_settings(const AttentionSettings& settings) {
  if (!std::isfinite(settings.scale) || settings.scale <= 0) {
    throw Error("attention scales its scores by " + std::to_string(settings.scale),
                "give a positive, finite scale, such as 1 / sqrt(dimension)");
  }
  if (!std::isfinite(settings.soft_cap) || settings.soft_cap < 0) {
    throw Error("attention caps its scores at " + std::to_string(settings.soft_cap),
                "give a positive soft cap, or 0 for none");
  }
}

// The least tile of queries of any device's backward pass.
inline constexpr int least_query_tile = 32;

}  // namespace detail

// How many integers attention_backward needs to work with, on any device.
constexpr Index attention_backward_room(Index queries) {
  return 2 * ceil_divide(queries, detail::least_query_tile);
}

}  // namespace trilith::inline v0::ops
