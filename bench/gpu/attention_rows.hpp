// Single rows of attention and its gradients in float64, beside what was computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <trilith/core/tensor.hpp>

namespace trilith::bench {

// Of a head of queries: (sequence, dimension) each, but lse: (sequence).
struct QueryHead {
  std::vector<float> q, d_out, out, dq, lse;
};
// Of the head of keys that they see.
struct KeyHead {
  std::vector<float> k, v, dk, dv;
};

// The largest ‖computed − expected‖ / ‖expected‖ of single rows; of lse, |computed − expected|.
struct AttentionErrors {
  double out = 0;
  double gradients = 0;
};

class AttentionRows {
 public:
  AttentionRows(Index sequence, Index dimension, bool causal, double scale)
      : sequence_(sequence), dimension_(dimension), causal_(causal), scale_(scale) {}

  // out, lse and dq of a row of queries, from the inputs.
  void add_query(const QueryHead& h, const KeyHead& keys, Index row, AttentionErrors& worst) const {
    Row weights(static_cast<std::size_t>(seen(row)));
    for (Index j = 0; j < seen(row); ++j) weights[j] = scale_ * dot(h.q, row, keys.k, j);
    const double most = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);

    Row out = zeros();
    double delta = 0;
    for (Index j = 0; j < seen(row); ++j) {
      weights[j] /= sum;
      add(weights[j], keys.v, j, out);
      delta += weights[j] * dot(h.d_out, row, keys.v, j);
    }
    Row dq = zeros();
    for (Index j = 0; j < seen(row); ++j) {
      add(scale_ * weights[j] * (dot(h.d_out, row, keys.v, j) - delta), keys.k, j, dq);
    }
    const double lse = most + std::log(sum);
    worst.out = std::max({worst.out, error(h.out, row, out), not_nan(std::abs(double{h.lse[row]} - lse))});
    worst.gradients = std::max(worst.gradients, error(h.dq, row, dq));
  }

  // dk and dv of a row of keys, from the inputs, out and lse of all queries that see them.
  void add_key(const std::vector<QueryHead>& group, const KeyHead& keys, Index key,
               AttentionErrors& worst) const {
    Row dk = zeros();
    Row dv = zeros();
    for (const QueryHead& h : group) {
      for (Index i = causal_ ? key : 0; i < sequence_; ++i) {
        const double weight = std::exp(scale_ * dot(h.q, i, keys.k, key) - double{h.lse[i]});
        const double delta = dot(h.d_out, i, h.out, i);
        add(weight, h.d_out, i, dv);
        add(scale_ * weight * (dot(h.d_out, i, keys.v, key) - delta), h.q, i, dk);
      }
    }
    worst.gradients = std::max({worst.gradients, error(keys.dk, key, dk), error(keys.dv, key, dv)});
  }

 private:
  using Row = std::vector<double>;

  Index seen(Index query) const { return causal_ ? query + 1 : sequence_; }

  double dot(const std::vector<float>& a, Index row_a, const std::vector<float>& b, Index row_b) const {
    double sum = 0;
    for (Index c = 0; c < dimension_; ++c) {
      sum += double{a[row_a * dimension_ + c]} * double{b[row_b * dimension_ + c]};
    }
    return sum;
  }
  void add(double factor, const std::vector<float>& x, Index row, Row& to) const {
    for (Index c = 0; c < dimension_; ++c) to[c] += factor * double{x[row * dimension_ + c]};
  }
  double error(const std::vector<float>& actual, Index row, const Row& expected) const {
    double difference = 0;
    double norm = 0;
    for (Index c = 0; c < dimension_; ++c) {
      difference += std::pow(double{actual[row * dimension_ + c]} - expected[c], 2);
      norm += std::pow(expected[c], 2);
    }
    return not_nan(std::sqrt(difference / norm));
  }
  static double not_nan(double error) { return std::isnan(error) ? INFINITY : error; }
  Row zeros() const { return Row(static_cast<std::size_t>(dimension_)); }

  Index sequence_;
  Index dimension_;
  bool causal_;
  double scale_;
};

}  // namespace trilith::bench
