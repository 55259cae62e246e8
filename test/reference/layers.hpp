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

// 1 / rms of a row, where rms² is the mean of x² plus epsilon; x / rms · gain is the norm of Zhang and
// Sennrich, "Root mean square layer normalization", 2019.
inline double inverse_root_mean_square(const double* x, Index width, double epsilon) {
  double square = 0;
  for (Index i = 0; i < width; ++i) square += x[i] * x[i] / width;
  return 1 / std::sqrt(square + epsilon);
}

inline Values rms_norm(const Values& x,     // (rows, width)
                       const Values& gain,  // (width)
                       double epsilon) {
  const Index width = std::ssize(gain);
  Values y(x.size());
  for (Index start = 0; start < std::ssize(x); start += width) {
    const double inverse = inverse_root_mean_square(&x[start], width, epsilon);
    for (Index i = 0; i < width; ++i) y[start + i] = x[start + i] * inverse * gain[i];
  }
  return y;
}

// With n = x / rms and g = dy · gain, dx = (g − n · mean(g · n)) / rms.
inline Values rms_norm_backward(const Values& dy, const Values& x, const Values& gain, double epsilon,
                                Values& dgain) {
  const Index width = std::ssize(gain);
  Values dx(x.size());
  for (Index start = 0; start < std::ssize(x); start += width) {
    const double inverse = inverse_root_mean_square(&x[start], width, epsilon);
    double mean_gn = 0;
    for (Index i = 0; i < width; ++i) {
      const double n = x[start + i] * inverse;
      mean_gn += dy[start + i] * gain[i] * n / width;
      dgain[i] += dy[start + i] * n;
    }
    for (Index i = 0; i < width; ++i) {
      dx[start + i] = (dy[start + i] * gain[i] - x[start + i] * inverse * mean_gn) * inverse;
    }
  }
  return dx;
}

// gate · σ(gate) · up: Shazeer, "GLU variants improve transformer", 2020.
inline Values swiglu(const Values& gate, const Values& up) {
  Values y(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return y;
}

struct SwigluGradients {
  Values gate;
  Values up;
};

inline SwigluGradients swiglu_backward(const Values& dy, const Values& gate, const Values& up) {
  SwigluGradients d{Values(dy.size()), Values(dy.size())};
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const double sigma = 1 / (1 + std::exp(-gate[i]));
    d.gate[i] = dy[i] * up[i] * sigma * (1 + gate[i] * (1 - sigma));
    d.up[i] = dy[i] * gate[i] * sigma;
  }
  return d;
}

// Where causal attention finds a token's query, key and value: a row of qkv holds the query of every head,
// side by side, then the keys and then the values, of which several heads in a row share one.
struct AttentionLayout {
  Index sequences;
  Index length;
  Index heads;
  Index kv_heads;
  Index dimension;

  Index row() const { return (heads + 2 * kv_heads) * dimension; }
  Index query(Index sequence, Index head, Index position) const {
    return (sequence * length + position) * row() + head * dimension;
  }
  Index key(Index sequence, Index head, Index position) const {
    return query(sequence, heads + head / (heads / kv_heads), position);
  }
  Index value(Index sequence, Index head, Index position) const {
    return key(sequence, head, position) + kv_heads * dimension;
  }
  // In the result, which is (sequences · length, heads · dimension).
  Index output(Index sequence, Index head, Index position) const {
    return ((sequence * length + position) * heads + head) * dimension;
  }
};

// Turns queries and keys of position p, in each head the pairs (i, i + dimension / 2), by the angles
// direction · p · theta^(−2i / dimension): Su et al., "RoFormer", 2021.
inline Values rotated(Values qkv, const AttentionLayout& at, double theta, double direction) {
  const Index half = at.dimension / 2;
  for (Index row = 0; row < at.sequences * at.length; ++row) {
    for (Index head = 0; head < at.heads + at.kv_heads; ++head) {
      double* const x = &qkv[row * at.row() + head * at.dimension];
      for (Index i = 0; i < half; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(at.dimension);
        const double angle = direction * static_cast<double>(row % at.length) * std::pow(theta, exponent);
        const double a = x[i];
        const double b = x[i + half];
        x[i] = a * std::cos(angle) - b * std::sin(angle);
        x[i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return qkv;
}
inline Values rotary(const Values& qkv, const AttentionLayout& at, double theta) {
  return rotated(qkv, at, theta, 1);
}
inline Values rotary_backward(const Values& dqkv, const AttentionLayout& at, double theta) {
  return rotated(dqkv, at, theta, -1);
}

// How much position `i` attends to each of the positions 0 … i: the softmax of q · k / √dimension.
inline Values attention_weights(const Values& qkv, const AttentionLayout& at, Index sequence, Index head,
                                Index i) {
  Values p(i + 1);
  double largest = -std::numeric_limits<double>::infinity();
  for (Index j = 0; j <= i; ++j) {
    for (Index d = 0; d < at.dimension; ++d) {
      p[j] += qkv[at.query(sequence, head, i) + d] * qkv[at.key(sequence, head, j) + d];
    }
    p[j] /= std::sqrt(static_cast<double>(at.dimension));
    largest = std::max(largest, p[j]);
  }
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - largest);
  for (double& x : p) x /= sum;
  return p;
}

inline Values attention(const Values& qkv, const AttentionLayout& at) {
  Values y(at.sequences * at.length * at.heads * at.dimension);
  for (Index s = 0; s < at.sequences; ++s) {
    for (Index head = 0; head < at.heads; ++head) {
      for (Index i = 0; i < at.length; ++i) {
        const Values p = attention_weights(qkv, at, s, head, i);
        for (Index j = 0; j <= i; ++j) {
          for (Index d = 0; d < at.dimension; ++d) {
            y[at.output(s, head, i) + d] += p[j] * qkv[at.value(s, head, j) + d];
          }
        }
      }
    }
  }
  return y;
}

inline Values attention_backward(const Values& dy, const Values& qkv, const AttentionLayout& at) {
  const double scale = 1 / std::sqrt(static_cast<double>(at.dimension));
  Values dqkv(qkv.size());
  for (Index s = 0; s < at.sequences; ++s) {
    for (Index head = 0; head < at.heads; ++head) {
      for (Index i = 0; i < at.length; ++i) {
        const Values p = attention_weights(qkv, at, s, head, i);
        Values dp(i + 1);
        double mean_dp = 0;  // weighted by p
        for (Index j = 0; j <= i; ++j) {
          for (Index d = 0; d < at.dimension; ++d) {
            dp[j] += dy[at.output(s, head, i) + d] * qkv[at.value(s, head, j) + d];
            dqkv[at.value(s, head, j) + d] += p[j] * dy[at.output(s, head, i) + d];
          }
          mean_dp += p[j] * dp[j];
        }
        for (Index j = 0; j <= i; ++j) {
          const double dscore = p[j] * (dp[j] - mean_dp) * scale;
          for (Index d = 0; d < at.dimension; ++d) {
            dqkv[at.query(s, head, i) + d] += dscore * qkv[at.key(s, head, j) + d];
            dqkv[at.key(s, head, j) + d] += dscore * qkv[at.query(s, head, i) + d];
          }
        }
      }
    }
  }
  return dqkv;
}

// y = x Wᵀ, a linear without bias that holds its weight as PyTorch does. As an output head it gives the
// scores of every token of the vocabulary.
inline Values projection(const Values& x,       // (rows, in)
                         const Values& weight,  // (out, in)
                         Index in) {
  const Index rows = std::ssize(x) / in;
  const Index out = std::ssize(weight) / in;
  Values y(rows * out);
  for (Index r = 0; r < rows; ++r) {
    for (Index o = 0; o < out; ++o) {
      for (Index i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * weight[o * in + i];
    }
  }
  return y;
}

inline Values projection_backward(const Values& dy, const Values& x, const Values& weight, Index in,
                                  Values& dweight) {
  const Index rows = std::ssize(x) / in;
  const Index out = std::ssize(weight) / in;
  Values dx(x.size());
  for (Index r = 0; r < rows; ++r) {
    for (Index o = 0; o < out; ++o) {
      for (Index i = 0; i < in; ++i) {
        dx[r * in + i] += dy[r * out + o] * weight[o * in + i];
        dweight[o * in + i] += dy[r * out + o] * x[r * in + i];
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
