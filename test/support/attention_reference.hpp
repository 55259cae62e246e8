// Attention and its gradients by the definition in float64, and the inputs and results to compare with it,
// for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <trilith/mask/mask.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/attention.hpp>

#include "test/support/tensors.hpp"

namespace trilith::test {

struct NamedMask {
  std::string name;
  Mask mask;
};
inline const NamedMask full{"full", mask::full()};
inline const NamedMask causal{"causal", mask::causal()};

struct AttentionShape {
  Index batch;
  Index queries;
  Index keys;
  Index heads;
  Index kv_heads;
  Index dimension;
  NamedMask mask = full;
  float logits = 1;  // standard deviation of the scaled scores
  float soft_cap = 0;
  bool sinks = false;

  Index group() const { return heads / kv_heads; }
  float scale() const { return logits / std::sqrt(static_cast<float>(dimension)); }

  friend std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
    return out << s.batch << " × (" << s.queries << " queries, " << s.keys << " keys) × (" << s.heads << " / "
               << s.kv_heads << " heads) × " << s.dimension << " " << s.mask.name << ", logits " << s.logits
               << ", soft cap " << s.soft_cap << (s.sinks ? ", sinks" : "");
  }
};

// For an operation: what each query sees, and whether that is a rectangle.
inline ops::KeyRanges key_ranges_of(Vector<const std::int32_t> first, Vector<const std::int32_t> last) {
  return {first, last, ops::seen_rectangle(first, last)};
}

// The keys that each query sees, for an operation.
class OwnKeyRanges {
 public:
  explicit OwnKeyRanges(const AttentionShape& s) {
    const BoundMask bound = s.mask.mask.of(s.queries, s.keys);
    for (Index i = 0; i < s.queries; ++i) {
      first_.push_back(static_cast<std::int32_t>(bound.keys_of(i).first));
      last_.push_back(static_cast<std::int32_t>(bound.keys_of(i).last));
    }
  }
  ops::KeyRanges view() const {
    const Index count = static_cast<Index>(first_.size());
    return key_ranges_of({first_.data(), {count}}, {last_.data(), {count}});
  }

 private:
  std::vector<std::int32_t> first_, last_;
};

// A tensor of (batch · sequence, heads · dimension) with strided rows, as attention sees it.
inline View<float, 4> heads_of(Tensor& x, Index batch, Index dimension) {
  const Index sequence = x.rows() / batch;
  return {&x(0, 0),
          {batch, sequence, x.columns() / dimension, dimension},
          {sequence * x.stride(), x.stride(), dimension, 1}};
}
inline View<const float, 4> heads_of(const Tensor& x, Index batch, Index dimension) {
  return heads_of(const_cast<Tensor&>(x), batch, dimension);
}

struct AttentionInputs {
  AttentionShape shape;
  Tensor q, k, v, d_out, sinks;

  // Equal seeds give equal inputs.
  explicit AttentionInputs(const AttentionShape& s, std::uint64_t seed = 0)
      : shape(s),
        q(random_tensor({s.batch * s.queries, s.heads * s.dimension, 5}, 8 * seed + 1)),
        k(random_tensor({s.batch * s.keys, s.kv_heads * s.dimension, 3}, 8 * seed + 2)),
        v(random_tensor({s.batch * s.keys, s.kv_heads * s.dimension, 7}, 8 * seed + 3)),
        d_out(random_tensor({s.batch * s.queries, s.heads * s.dimension, 1}, 8 * seed + 4)),
        sinks(random_tensor(s.heads, 8 * seed + 5)) {}

  ops::AttentionSettings settings() const {
    return {.scale = shape.scale(),
            .soft_cap = shape.soft_cap,
            .sinks = shape.sinks ? sinks.vector() : Vector<const float>()};
  }
};

// Poisoned until they are computed.
struct AttentionResults {
  Tensor out, lse, delta, dq, dk, dv, d_sinks;

  explicit AttentionResults(const AttentionShape& s)
      : out({s.batch * s.queries, s.heads * s.dimension, 2}),
        lse({s.batch * s.heads, s.queries}),
        delta({s.batch * s.heads, s.queries}),
        dq({s.batch * s.queries, s.heads * s.dimension, 6}),
        dk({s.batch * s.keys, s.kv_heads * s.dimension, 4}),
        dv({s.batch * s.keys, s.kv_heads * s.dimension}),
        d_sinks(s.sinks ? s.heads : 0) {}

  std::vector<Tensor> all() const { return {out, lse, delta, dq, dk, dv, d_sinks}; }
};

// lse or delta: (batch · heads, queries).
inline View<float, 3> per_query(Tensor& x, const AttentionShape& s) {
  return {&x(0, 0), {s.batch, s.heads, s.queries}};
}

inline void forward(const Host::Stream& stream, const AttentionInputs& x, AttentionResults& y) {
  const AttentionShape& s = x.shape;
  ops::attention(stream, heads_of(x.q, s.batch, s.dimension), heads_of(x.k, s.batch, s.dimension),
                 heads_of(x.v, s.batch, s.dimension), x.settings(), OwnKeyRanges(s).view(),
                 heads_of(y.out, s.batch, s.dimension), per_query(y.lse, s));
}

inline void backward(const Host::Stream& stream, const AttentionInputs& x, AttentionResults& y) {
  const AttentionShape& s = x.shape;
  ops::attention_delta(stream, heads_of(y.out, s.batch, s.dimension), heads_of(x.d_out, s.batch, s.dimension),
                       per_query(y.delta, s));
  ops::attention_backward(stream, heads_of(x.q, s.batch, s.dimension), heads_of(x.k, s.batch, s.dimension),
                          heads_of(x.v, s.batch, s.dimension), per_query(y.lse, s), per_query(y.delta, s),
                          heads_of(x.d_out, s.batch, s.dimension), x.settings(), OwnKeyRanges(s).view(),
                          ops::Hop{}, View<float, 4>(), heads_of(y.dq, s.batch, s.dimension),
                          heads_of(y.dk, s.batch, s.dimension), heads_of(y.dv, s.batch, s.dimension));
  ops::attention_sinks_backward(stream, per_query(y.lse, s), per_query(y.delta, s), x.settings(),
                                Accumulate::no, y.d_sinks.vector());
}

inline AttentionResults attend(const Host::Stream& stream, const AttentionInputs& x) {
  AttentionResults y(x.shape);
  forward(stream, x, y);
  backward(stream, x, y);
  return y;
}

// The definition in float64, one query at a time.
struct ExpectedAttention {
  Reference out, lse, dq, dk, dv, d_sinks;

  explicit ExpectedAttention(const AttentionInputs& x)
      : out(x.q.rows(), x.q.columns()),
        lse(x.shape.batch * x.shape.heads, x.shape.queries),
        dq(x.q.rows(), x.q.columns()),
        dk(x.k.rows(), x.k.columns()),
        dv(x.k.rows(), x.k.columns()),
        d_sinks(x.shape.heads) {
    const BoundMask bound = x.shape.mask.mask.of(x.shape.queries, x.shape.keys);
    for (Index b = 0; b < x.shape.batch; ++b) {
      for (Index h = 0; h < x.shape.heads; ++h) {
        for (Index i = 0; i < x.shape.queries; ++i) add(x, bound, b, h, i);
      }
    }
  }

 private:
  // A key that the query sees: its score, the derivative of its score by scale · q · k, and its weight.
  struct Seen {
    Index row;
    double score;
    double slope;
    double weight = 0;
    double d_weight = 0;
  };

  void add(const AttentionInputs& x, const BoundMask& bound, Index b, Index h, Index i) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const AttentionShape& s = x.shape;
    const Index row = b * s.queries + i;
    const Index column = h * s.dimension;
    const Index kv_column = h / s.group() * s.dimension;
    std::vector<Seen> seen;
    double most = s.sinks ? double{x.sinks[h]} : -infinity;
    for (Index j = 0; j < s.keys; ++j) {
      if (!bound.sees(i, j)) continue;
      double score = 0;
      for (Index c = 0; c < s.dimension; ++c) {
        score += double{x.q(row, column + c)} * double{x.k(b * s.keys + j, kv_column + c)};
      }
      score *= double{s.scale()};
      double slope = 1;
      if (s.soft_cap > 0) {
        const double t = std::tanh(score / double{s.soft_cap});
        score = double{s.soft_cap} * t;
        slope = 1 - t * t;
      }
      seen.push_back({.row = b * s.keys + j, .score = score, .slope = slope});
      most = std::max(most, score);
    }
    const double sink = s.sinks ? std::exp(double{x.sinks[h]} - most) : 0;
    double sum = sink;
    for (Seen& key : seen) sum += key.weight = std::exp(key.score - most);
    lse(b * s.heads + h, i) = most + std::log(sum);
    if (sum == 0) return;

    double delta = 0;
    for (Seen& key : seen) {
      key.weight /= sum;
      for (Index c = 0; c < s.dimension; ++c) {
        const double d = double{x.d_out(row, column + c)};
        const double v = double{x.v(key.row, kv_column + c)};
        out(row, column + c) += key.weight * v;
        dv(key.row, kv_column + c) += key.weight * d;
        key.d_weight += d * v;
      }
      delta += key.weight * key.d_weight;
    }
    for (const Seen& key : seen) {
      const double d_score = key.weight * (key.d_weight - delta) * key.slope * double{s.scale()};
      for (Index c = 0; c < s.dimension; ++c) {
        dq(row, column + c) += d_score * double{x.k(key.row, kv_column + c)};
        dk(key.row, kv_column + c) += d_score * double{x.q(row, column + c)};
      }
    }
    d_sinks[h] -= sink / sum * delta;
  }
};

inline double norm(const Reference& x, const Tensor& shaped) {
  double sum = 0;
  for (Index row = 0; row < shaped.rows(); ++row) {
    for (Index column = 0; column < shaped.columns(); ++column) {
      if (std::isfinite(x(row, column))) sum += x(row, column) * x(row, column);
    }
  }
  return std::sqrt(sum);
}

// ‖actual − expected‖ / max(‖expected‖, floor), where −∞ must meet −∞; NaN gives +∞.
inline double norm_error(const Tensor& actual, const Reference& expected, double floor = 0) {
  double error = 0;
  for (Index row = 0; row < actual.rows(); ++row) {
    for (Index column = 0; column < actual.columns(); ++column) {
      const double a = double{actual(row, column)};
      const double e = expected(row, column);
      if (a != e) error += (a - e) * (a - e);
    }
  }
  if (error == 0) return 0;
  const double relative = std::sqrt(error) / std::max(norm(expected, actual), floor);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

}  // namespace trilith::test
