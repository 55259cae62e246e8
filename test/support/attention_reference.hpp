// Attention and its gradients by the definition in float64, and the inputs and results to compare with it,
// for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ostream>
#include <vector>

#include <trilith/ops/host/attention.hpp>

#include "test/support/tensors.hpp"

namespace trilith::test {

struct AttentionShape {
  Index batch;
  Index queries;
  Index keys;
  Index heads;
  Index kv_heads;
  Index dimension;
  ops::Mask mask;
  float logits = 1;  // standard deviation of the scaled scores

  Index group() const { return heads / kv_heads; }
  float scale() const { return logits / std::sqrt(static_cast<float>(dimension)); }
  bool sees(Index query, Index key) const { return mask == ops::Mask::full || key <= query + keys - queries; }

  friend std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
    return out << s.batch << " × (" << s.queries << " queries, " << s.keys << " keys) × (" << s.heads << " / "
               << s.kv_heads << " heads) × " << s.dimension
               << (s.mask == ops::Mask::causal ? " causal" : " full") << ", logits " << s.logits;
  }
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
  Tensor q, k, v, d_out;

  explicit AttentionInputs(const AttentionShape& s)
      : shape(s),
        q(random_tensor({s.batch * s.queries, s.heads * s.dimension, 5}, 1)),
        k(random_tensor({s.batch * s.keys, s.kv_heads * s.dimension, 3}, 2)),
        v(random_tensor({s.batch * s.keys, s.kv_heads * s.dimension, 7}, 3)),
        d_out(random_tensor({s.batch * s.queries, s.heads * s.dimension, 1}, 4)) {}
};

// Poisoned until they are computed.
struct AttentionResults {
  Tensor out, lse, delta, dq, dk, dv;

  explicit AttentionResults(const AttentionShape& s)
      : out({s.batch * s.queries, s.heads * s.dimension, 2}),
        lse({s.batch * s.heads, s.queries}),
        delta({s.batch * s.heads, s.queries}),
        dq({s.batch * s.queries, s.heads * s.dimension, 6}),
        dk({s.batch * s.keys, s.kv_heads * s.dimension, 4}),
        dv({s.batch * s.keys, s.kv_heads * s.dimension}) {}

  std::vector<Tensor> all() const { return {out, lse, delta, dq, dk, dv}; }
};

inline void forward(const Host::Stream& stream, const AttentionInputs& x, AttentionResults& y) {
  const AttentionShape& s = x.shape;
  ops::attention(stream, heads_of(x.q, s.batch, s.dimension), heads_of(x.k, s.batch, s.dimension),
                 heads_of(x.v, s.batch, s.dimension), s.scale(), s.mask,
                 heads_of(y.out, s.batch, s.dimension),
                 View<float, 3>(&y.lse(0, 0), {s.batch, s.heads, s.queries}));
}

inline void backward(const Host::Stream& stream, const AttentionInputs& x, AttentionResults& y) {
  const AttentionShape& s = x.shape;
  ops::attention_backward(stream, heads_of(x.q, s.batch, s.dimension), heads_of(x.k, s.batch, s.dimension),
                          heads_of(x.v, s.batch, s.dimension), heads_of(y.out, s.batch, s.dimension),
                          View<float, 3>(&y.lse(0, 0), {s.batch, s.heads, s.queries}),
                          heads_of(x.d_out, s.batch, s.dimension), s.scale(), s.mask,
                          View<float, 3>(&y.delta(0, 0), {s.batch, s.heads, s.queries}),
                          heads_of(y.dq, s.batch, s.dimension), heads_of(y.dk, s.batch, s.dimension),
                          heads_of(y.dv, s.batch, s.dimension));
}

inline AttentionResults attend(const Host::Stream& stream, const AttentionInputs& x) {
  AttentionResults y(x.shape);
  forward(stream, x, y);
  backward(stream, x, y);
  return y;
}

// The definition in float64, one query at a time.
struct ExpectedAttention {
  Reference out, lse, dq, dk, dv;

  explicit ExpectedAttention(const AttentionInputs& x)
      : out(x.q.rows(), x.q.columns()),
        lse(x.shape.batch * x.shape.heads, x.shape.queries),
        dq(x.q.rows(), x.q.columns()),
        dk(x.k.rows(), x.k.columns()),
        dv(x.k.rows(), x.k.columns()) {
    for (Index b = 0; b < x.shape.batch; ++b) {
      for (Index h = 0; h < x.shape.heads; ++h) {
        for (Index i = 0; i < x.shape.queries; ++i) add(x, b, h, i);
      }
    }
  }

 private:
  void add(const AttentionInputs& x, Index b, Index h, Index i) {
    const AttentionShape& s = x.shape;
    const Index row = b * s.queries + i;
    const Index first_row = b * s.keys;
    const Index column = h * s.dimension;
    const Index kv_column = h / s.group() * s.dimension;
    std::vector<double> weights(static_cast<std::size_t>(s.keys), -std::numeric_limits<double>::infinity());
    double most = -std::numeric_limits<double>::infinity();
    for (Index j = 0; j < s.keys; ++j) {
      if (!s.sees(i, j)) continue;
      double dot = 0;
      for (Index c = 0; c < s.dimension; ++c) {
        dot += double{x.q(row, column + c)} * double{x.k(first_row + j, kv_column + c)};
      }
      weights[static_cast<std::size_t>(j)] = dot * double{s.scale()};
      most = std::max(most, dot * double{s.scale()});
    }
    double sum = 0;
    for (double& weight : weights) {
      sum += weight = most == -std::numeric_limits<double>::infinity() ? 0 : std::exp(weight - most);
    }
    lse(b * s.heads + h, i) = most + std::log(sum);
    if (sum == 0) return;

    double delta = 0;
    std::vector<double> d_weights(weights.size());
    for (Index j = 0; j < s.keys; ++j) {
      const double weight = weights[static_cast<std::size_t>(j)] /= sum;
      for (Index c = 0; c < s.dimension; ++c) {
        const double d = double{x.d_out(row, column + c)};
        const double v = double{x.v(first_row + j, kv_column + c)};
        out(row, column + c) += weight * v;
        dv(first_row + j, kv_column + c) += weight * d;
        d_weights[static_cast<std::size_t>(j)] += d * v;
      }
      delta += weight * d_weights[static_cast<std::size_t>(j)];
    }
    for (Index j = 0; j < s.keys; ++j) {
      const double d_score = weights[static_cast<std::size_t>(j)] *
                             (d_weights[static_cast<std::size_t>(j)] - delta) * double{s.scale()};
      for (Index c = 0; c < s.dimension; ++c) {
        dq(row, column + c) += d_score * double{x.k(first_row + j, kv_column + c)};
        dk(first_row + j, kv_column + c) += d_score * double{x.q(row, column + c)};
      }
    }
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
