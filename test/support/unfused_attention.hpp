// Attention and its gradients as they come out where scores, weights and their gradients lie in memory in 16
// bits: every product sums exactly, and what it gives is rounded. The error of this is the measure for
// kernels that keep them in registers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/mask/mask.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith::test {

template <half T>
double rounded_to(double x) {
  return double{static_cast<float>(T(static_cast<float>(x)))};
}

// Every element becomes one that T has.
template <half T>
void round_to(Tensor& x) {
  for (Index row = 0; row < x.rows(); ++row) {
    for (Index column = 0; column < x.columns(); ++column) {
      x(row, column) = static_cast<float>(T(x(row, column)));
    }
  }
}

template <half T>
struct UnfusedAttention {
  Reference out, dq, dk, dv;

  explicit UnfusedAttention(const AttentionInputs& x)
      : out(x.q.rows(), x.q.columns()),
        dq(x.q.rows(), x.q.columns()),
        dk(x.k.rows(), x.k.columns()),
        dv(x.k.rows(), x.k.columns()) {
    const BoundMask bound = x.shape.mask.mask.of(x.shape.queries, x.shape.keys);
    for (Index b = 0; b < x.shape.batch; ++b) {
      for (Index h = 0; h < x.shape.heads; ++h) {
        for (Index i = 0; i < x.shape.queries; ++i) add(x, bound.keys_of(i), b, h, i);
      }
    }
    round_all(out, x.q);
    round_all(dq, x.q);
    round_all(dk, x.k);
    round_all(dv, x.k);
  }

 private:
  void add(const AttentionInputs& x, KeyInterval keys, Index b, Index h, Index i) {
    if (keys.size() <= 0) return;
    const AttentionShape& s = x.shape;
    const Index row = b * s.queries + i;
    const Index first = b * s.keys + keys.first;
    const Index column = h * s.dimension;
    const Index kv_column = h / s.group() * s.dimension;
    const auto dot = [&](const Tensor& left, const Tensor& right, Index key) {
      double sum = 0;
      for (Index c = 0; c < s.dimension; ++c) {
        sum += double{left(row, column + c)} * double{right(first + key, kv_column + c)};
      }
      return sum;
    };

    const auto count = static_cast<std::size_t>(keys.size());
    std::vector<double> weight(count), slope(count, 1.0), d_weight(count);
    double most = s.sinks ? double{x.sinks[h]} : -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < count; ++j) {
      weight[j] = rounded_to<T>(double{s.scale()} * dot(x.q, x.k, static_cast<Index>(j)));
      if (s.soft_cap > 0) {
        const double t = rounded_to<T>(std::tanh(weight[j] / double{s.soft_cap}));
        weight[j] = rounded_to<T>(double{s.soft_cap} * t);
        slope[j] = 1 - t * t;
      }
      most = std::max(most, weight[j]);
    }
    double sum = s.sinks ? std::exp(double{x.sinks[h]} - most) : 0;
    for (double& w : weight) sum += w = std::exp(w - most);

    double delta = 0;
    for (std::size_t j = 0; j < count; ++j) {
      weight[j] = rounded_to<T>(weight[j] / sum);
      d_weight[j] = rounded_to<T>(dot(x.d_out, x.v, static_cast<Index>(j)));
      delta += weight[j] * d_weight[j];
    }
    for (std::size_t j = 0; j < count; ++j) {
      const Index key = first + static_cast<Index>(j);
      const double d_score = rounded_to<T>(rounded_to<T>(weight[j] * (d_weight[j] - delta)) * slope[j]);
      for (Index c = 0; c < s.dimension; ++c) {
        out(row, column + c) += weight[j] * double{x.v(key, kv_column + c)};
        dv(key, kv_column + c) += weight[j] * double{x.d_out(row, column + c)};
        dq(row, column + c) += double{s.scale()} * d_score * double{x.k(key, kv_column + c)};
        dk(key, kv_column + c) += double{s.scale()} * d_score * double{x.q(row, column + c)};
      }
    }
  }

  static void round_all(Reference& x, const Tensor& shaped) {
    for (Index row = 0; row < shaped.rows(); ++row) {
      for (Index column = 0; column < shaped.columns(); ++column) {
        x(row, column) = rounded_to<T>(x(row, column));
      }
    }
  }
};

}  // namespace trilith::test
