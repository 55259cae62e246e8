// The layers of the float64 reference, each with its backward pass: plain loops, explicit scores.
//
// Values lie row-major, one row a token, the tokens of a batch in the order (sequence, position). Functions
// named `…_backward` take the gradient of the loss with respect to their forward's result, return the one
// with respect to its input, and add those with respect to weights to what is there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numbers>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/train/batch.hpp>

namespace trilith::reference {

using Values = std::vector<double>;

inline void add_to(Values& sum, const Values& term) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
}

// y = x W + b.
inline Values linear(const Values& x,       // (rows, in)
                     const Values& weight,  // (in, out)
                     const Values& bias) {  // (out)
  const Index out = std::ssize(bias);
  const Index in = std::ssize(weight) / out;
  const Index rows = std::ssize(x) / in;
  Values y(rows * out);
  for (Index r = 0; r < rows; ++r) {
    for (Index o = 0; o < out; ++o) y[r * out + o] = bias[o];
    for (Index i = 0; i < in; ++i) {
      for (Index o = 0; o < out; ++o) y[r * out + o] += x[r * in + i] * weight[i * out + o];
    }
  }
  return y;
}

inline Values linear_backward(const Values& dy, const Values& x, const Values& weight, Values& dweight,
                              Values& dbias) {
  const Index out = std::ssize(dbias);
  const Index in = std::ssize(weight) / out;
  const Index rows = std::ssize(x) / in;
  Values dx(rows * in);
  for (Index r = 0; r < rows; ++r) {
    for (Index o = 0; o < out; ++o) dbias[o] += dy[r * out + o];
    for (Index i = 0; i < in; ++i) {
      for (Index o = 0; o < out; ++o) {
        dx[r * in + i] += dy[r * out + o] * weight[i * out + o];
        dweight[i * out + o] += dy[r * out + o] * x[r * in + i];
      }
    }
  }
  return dx;
}

// One row of x, less its mean and divided by its standard deviation.
struct NormalizedRow {
  Values values;
  double inverse_deviation;
};

inline NormalizedRow normalized_row(const double* x, Index width) {
  constexpr double epsilon = 1e-5;
  double mean = 0;
  for (Index i = 0; i < width; ++i) mean += x[i] / width;
  double variance = 0;
  for (Index i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean) / width;
  NormalizedRow row{Values(width), 1 / std::sqrt(variance + epsilon)};
  for (Index i = 0; i < width; ++i) row.values[i] = (x[i] - mean) * row.inverse_deviation;
  return row;
}

inline Values layer_norm(const Values& x,       // (rows, width)
                         const Values& gain,    // (width)
                         const Values& bias) {  // (width)
  const Index width = std::ssize(gain);
  Values y(x.size());
  for (Index start = 0; start < std::ssize(x); start += width) {
    const Values n = normalized_row(&x[start], width).values;
    for (Index i = 0; i < width; ++i) y[start + i] = n[i] * gain[i] + bias[i];
  }
  return y;
}

// With n the normalized row and g = dy · gain, dx = (g − mean(g) − n · mean(g · n)) / deviation: what
// would change the row's mean or its deviation is taken out again.
inline Values layer_norm_backward(const Values& dy, const Values& x, const Values& gain, Values& dgain,
                                  Values& dbias) {
  const Index width = std::ssize(gain);
  Values dx(x.size());
  for (Index start = 0; start < std::ssize(x); start += width) {
    const auto [n, inverse_deviation] = normalized_row(&x[start], width);
    double mean_g = 0;
    double mean_gn = 0;
    for (Index i = 0; i < width; ++i) {
      const double g = dy[start + i] * gain[i];
      mean_g += g / width;
      mean_gn += g * n[i] / width;
      dgain[i] += dy[start + i] * n[i];
      dbias[i] += dy[start + i];
    }
    for (Index i = 0; i < width; ++i) {
      const double g = dy[start + i] * gain[i];
      dx[start + i] = (g - mean_g - n[i] * mean_gn) * inverse_deviation;
    }
  }
  return dx;
}

// The tanh form of Hendrycks and Gimpel, "Gaussian error linear units", 2016:
// x/2 · (1 + tanh u), u = √(2/π) (x + 0.044715 x³).
inline constexpr double gelu_scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
inline constexpr double gelu_cubic = 0.044715;

inline Values gelu(const Values& x) {
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = gelu_scale * (x[i] + gelu_cubic * x[i] * x[i] * x[i]);
    y[i] = 0.5 * x[i] * (1 + std::tanh(u));
  }
  return y;
}

inline Values gelu_backward(const Values& dy, const Values& x) {
  Values dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = gelu_scale * (x[i] + gelu_cubic * x[i] * x[i] * x[i]);
    const double du = gelu_scale * (1 + 3 * gelu_cubic * x[i] * x[i]);
    const double t = std::tanh(u);
    dx[i] = dy[i] * (0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * du);
  }
  return dx;
}

// Where causal attention finds a token's query, key and value: qkv is (sequences · length, 3 · hidden), the
// heads side by side within each third.
struct AttentionLayout {
  Index sequences;
  Index length;
  Index heads;
  Index hidden;

  Index dimension() const { return hidden / heads; }
  Index query(Index sequence, Index head, Index position) const {
    return (sequence * length + position) * 3 * hidden + head * dimension();
  }
  Index key(Index sequence, Index head, Index position) const {
    return query(sequence, head, position) + hidden;
  }
  Index value(Index sequence, Index head, Index position) const {
    return query(sequence, head, position) + 2 * hidden;
  }
  // In the result, which is (sequences · length, hidden).
  Index output(Index sequence, Index head, Index position) const {
    return (sequence * length + position) * hidden + head * dimension();
  }
};

// How much position `i` attends to each of the positions 0 … i: the softmax of q · k / √dimension.
inline Values attention_weights(const Values& qkv, const AttentionLayout& at, Index sequence, Index head,
                                Index i) {
  Values p(i + 1);
  double largest = -std::numeric_limits<double>::infinity();
  for (Index j = 0; j <= i; ++j) {
    for (Index d = 0; d < at.dimension(); ++d) {
      p[j] += qkv[at.query(sequence, head, i) + d] * qkv[at.key(sequence, head, j) + d];
    }
    p[j] /= std::sqrt(static_cast<double>(at.dimension()));
    largest = std::max(largest, p[j]);
  }
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - largest);
  for (double& x : p) x /= sum;
  return p;
}

inline Values attention(const Values& qkv, const AttentionLayout& at) {
  Values y(at.sequences * at.length * at.hidden);
  for (Index s = 0; s < at.sequences; ++s) {
    for (Index head = 0; head < at.heads; ++head) {
      for (Index i = 0; i < at.length; ++i) {
        const Values p = attention_weights(qkv, at, s, head, i);
        for (Index j = 0; j <= i; ++j) {
          for (Index d = 0; d < at.dimension(); ++d) {
            y[at.output(s, head, i) + d] += p[j] * qkv[at.value(s, head, j) + d];
          }
        }
      }
    }
  }
  return y;
}

inline Values attention_backward(const Values& dy, const Values& qkv, const AttentionLayout& at) {
  const double scale = 1 / std::sqrt(static_cast<double>(at.dimension()));
  Values dqkv(qkv.size());
  for (Index s = 0; s < at.sequences; ++s) {
    for (Index head = 0; head < at.heads; ++head) {
      for (Index i = 0; i < at.length; ++i) {
        const Values p = attention_weights(qkv, at, s, head, i);
        Values dp(i + 1);
        double mean_dp = 0;  // weighted by p
        for (Index j = 0; j <= i; ++j) {
          for (Index d = 0; d < at.dimension(); ++d) {
            dp[j] += dy[at.output(s, head, i) + d] * qkv[at.value(s, head, j) + d];
            dqkv[at.value(s, head, j) + d] += p[j] * dy[at.output(s, head, i) + d];
          }
          mean_dp += p[j] * dp[j];
        }
        for (Index j = 0; j <= i; ++j) {
          const double dscore = p[j] * (dp[j] - mean_dp) * scale;
          for (Index d = 0; d < at.dimension(); ++d) {
            dqkv[at.query(s, head, i) + d] += dscore * qkv[at.key(s, head, j) + d];
            dqkv[at.key(s, head, j) + d] += dscore * qkv[at.query(s, head, i) + d];
          }
        }
      }
    }
  }
  return dqkv;
}

// The scores of every token of the vocabulary: x · wteᵀ.
inline Values output_head(const Values& x,    // (rows, hidden)
                          const Values& wte,  // (vocabulary, hidden)
                          Index hidden) {
  const Index rows = std::ssize(x) / hidden;
  const Index vocabulary = std::ssize(wte) / hidden;
  Values logits(rows * vocabulary);
  for (Index r = 0; r < rows; ++r) {
    for (Index v = 0; v < vocabulary; ++v) {
      for (Index i = 0; i < hidden; ++i) {
        logits[r * vocabulary + v] += x[r * hidden + i] * wte[v * hidden + i];
      }
    }
  }
  return logits;
}

inline Values output_head_backward(const Values& dlogits, const Values& x, const Values& wte, Index hidden,
                                   Values& dwte) {
  const Index rows = std::ssize(x) / hidden;
  const Index vocabulary = std::ssize(wte) / hidden;
  Values dx(x.size());
  for (Index r = 0; r < rows; ++r) {
    for (Index v = 0; v < vocabulary; ++v) {
      for (Index i = 0; i < hidden; ++i) {
        dx[r * hidden + i] += dlogits[r * vocabulary + v] * wte[v * hidden + i];
        dwte[v * hidden + i] += dlogits[r * vocabulary + v] * x[r * hidden + i];
      }
    }
  }
  return dx;
}

struct LossAndLogitGradients {
  double loss;
  Values dlogits;  // (rows, vocabulary)
};

// Mean of −log softmax(logits)[target] over the targets that count. At least one must.
inline LossAndLogitGradients cross_entropy(const Values& logits,  // (rows, vocabulary)
                                           const std::vector<std::int32_t>& targets) {
  const Index rows = std::ssize(targets);
  const Index vocabulary = std::ssize(logits) / rows;
  const auto valid = rows - std::count(targets.begin(), targets.end(), ignored_target);
  require(valid > 0, "the mean loss over no valid token does not exist",
          "give at least one target that is not ignored");
  LossAndLogitGradients result{0, Values(logits.size())};
  for (Index r = 0; r < rows; ++r) {
    if (targets[r] == ignored_target) continue;
    const double* row = &logits[r * vocabulary];
    const double largest = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (Index v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - largest);
    result.loss += (largest + std::log(sum) - row[targets[r]]) / valid;
    for (Index v = 0; v < vocabulary; ++v) {
      const double probability = std::exp(row[v] - largest) / sum;
      result.dlogits[r * vocabulary + v] = (probability - (v == targets[r] ? 1 : 0)) / valid;
    }
  }
  return result;
}

}  // namespace trilith::reference
