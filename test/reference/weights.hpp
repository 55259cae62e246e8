// All tensors of a model by their names.
#pragma once

#include <map>
#include <string>

#include "test/reference/layers.hpp"

namespace trilith::reference {

// Row-major. Gradients have the same form.
using Weights = std::map<std::string, Values>;

inline Weights zeros_like(const Weights& weights) {
  Weights zeros;
  for (const auto& [name, values] : weights) zeros[name].assign(values.size(), 0.0);
  return zeros;
}

struct LossAndGradients {
  double loss;
  Weights gradients;
};

}  // namespace trilith::reference
