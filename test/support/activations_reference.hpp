// Activation functions and their derivatives in float64.
#pragma once

#include <cmath>
#include <numbers>

namespace trilith::test {

inline double logistic(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

inline double silu(double x) {
  return x * logistic(x);
}
inline double silu_derivative(double x) {
  return logistic(x) * (1 + x * logistic(-x));
}

// With tanh, as GPT-2 has it: x · σ(2u).
inline double gelu(double x) {
  return x * logistic(std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}
inline double gelu_derivative(double x) {
  const double factor = std::sqrt(8 / std::numbers::pi);
  const double argument = factor * (x + 0.044715 * x * x * x);
  const double slope = factor * (1 + 3 * 0.044715 * x * x);
  return logistic(argument) + x * logistic(argument) * logistic(-argument) * slope;
}

}  // namespace trilith::test
