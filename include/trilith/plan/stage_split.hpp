// Layers are given to stages by cost, not by count: the first stage also has the embedding and the last the
// output head, which in GPT-2 124M weighs as much as 4.9 layers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/parallel/stage_range.hpp>

namespace trilith::inline v0 {

// The stages for given numbers of layers.
inline std::vector<StageRange> stages_of(const std::vector<int>& layers_per_stage) {
  std::vector<StageRange> stages;
  int first = 0;
  for (std::size_t i = 0; i < layers_per_stage.size(); ++i) {
    stages.push_back({.first_layer = first,
                      .layers = layers_per_stage[i],
                      .first = i == 0,
                      .last = i + 1 == layers_per_stage.size()});
    first += layers_per_stage[i];
  }
  return stages;
}

// The split into `stages` contiguous parts, each of at least one layer, whose costliest stage is cheapest;
// among those the one whose first stage is longest, and what it leaves is split by the same rule.
inline std::vector<int> split_layers(const ModelCost& cost, int stages) {
  const int layers = static_cast<int>(cost.layers.size());
  require(stages >= 1 && layers >= stages,
          std::to_string(layers) + " layers cannot be split over " + std::to_string(stages) + " stages",
          "every stage needs at least one layer");
  std::vector<double> sum(layers + 1, 0.0);
  std::partial_sum(cost.layers.begin(), cost.layers.end(), sum.begin() + 1);

  // best[k][n]: the cheapest possible costliest stage when the last k stages hold layers n … end.
  const auto cost_of = [&](int first, int end) {
    return sum[end] - sum[first] + (first == 0 ? cost.before : 0) + (end == layers ? cost.after : 0);
  };
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector best(stages + 1, std::vector<double>(layers + 1, never));
  std::vector end_of(stages + 1, std::vector<int>(layers + 1, 0));
  for (int n = 0; n < layers; ++n) {
    best[1][n] = cost_of(n, layers);
    end_of[1][n] = layers;
  }
  for (int k = 2; k <= stages; ++k) {
    for (int n = 0; n < layers; ++n) {
      for (int end = n + 1; end < layers; ++end) {
        const double worst = std::max(cost_of(n, end), best[k - 1][end]);
        if (worst <= best[k][n]) {
          best[k][n] = worst;
          end_of[k][n] = end;
        }
      }
    }
  }

  std::vector<int> split;
  for (int k = stages, n = 0; k >= 1; --k) {
    split.push_back(end_of[k][n] - n);
    n = end_of[k][n];
  }
  return split;
}

// Throws unless `split` gives each of the layers to exactly one of `stages` stages.
inline void check_split(const std::vector<int>& split, int layers, int stages) {
  const int sum = std::accumulate(split.begin(), split.end(), 0);
  const bool positive = std::all_of(split.begin(), split.end(), [](int n) { return n > 0; });
  require(static_cast<int>(split.size()) == stages && positive && sum == layers,
          "the given split has " + std::to_string(split.size()) + " stages and " + std::to_string(sum) +
              " layers; the model has " + std::to_string(layers) + " layers on " + std::to_string(stages) +
              " stages",
          "give every stage at least one layer and each layer once");
}

}  // namespace trilith::inline v0
