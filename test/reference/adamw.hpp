// One optimizer step in float64: gradients clipped by their global norm, then AdamW as PyTorch computes it
// (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019).
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "test/reference/weights.hpp"

namespace trilith::reference {

struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double max_norm = std::numeric_limits<double>::infinity();
};

struct AdamWState {
  Weights first;  // moments; zero before the first step
  Weights second;
  int steps = 0;

  explicit AdamWState(const Weights& weights) : first(zeros_like(weights)), second(zeros_like(weights)) {}
};

// Matrices decay; biases and the gains of norms do not.
inline bool decays(const std::string& name) {
  return name.ends_with(".weight") && name.find("ln_") == std::string::npos &&
         name.find("norm") == std::string::npos;
}

inline double global_norm(const Weights& gradients) {
  double sum = 0;
  for (const auto& [name, values] : gradients) {
    for (double x : values) sum += x * x;
  }
  return std::sqrt(sum);
}

// Updates weights and state; returns the global norm of the gradients before clipping. Clipping scales by
// exactly min(1, max_norm / norm), where PyTorch adds 1e-6 to the norm.
inline double adamw_step(const AdamW& options, const Weights& gradients, Weights& weights,
                         AdamWState& state) {
  const double norm = global_norm(gradients);
  const double scale = norm > options.max_norm ? options.max_norm / norm : 1.0;
  ++state.steps;
  const double correction1 = 1 - std::pow(options.beta1, state.steps);
  const double correction2 = 1 - std::pow(options.beta2, state.steps);
  for (auto& [name, w] : weights) {
    const double decay = decays(name) ? options.learning_rate * options.weight_decay : 0.0;
    const Values& gradient = gradients.at(name);
    Values& first = state.first.at(name);
    Values& second = state.second.at(name);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i] * scale;
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * g;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * g * g;
      const double mean = first[i] / correction1;
      const double deviation = std::sqrt(second[i] / correction2);
      w[i] -= decay * w[i];
      w[i] -= options.learning_rate * mean / (deviation + options.epsilon);
    }
  }
  return norm;
}

}  // namespace trilith::reference
