// The layers of a model that one pipeline stage holds, and what layers cost.
#pragma once

#include <vector>

namespace trilith::inline v0 {

struct StageRange {
  int first_layer = 0;
  int layers = 0;
  bool first = true;  // begins with the embedding
  bool last = true;   // ends with the output head and the loss
  friend constexpr bool operator==(const StageRange&, const StageRange&) = default;
};

// Costs in any common unit, for example FLOPs a token.
struct ModelCost {
  std::vector<double> layers;
  double before = 0;  // what the first stage does besides its layers
  double after = 0;   // what the last stage does besides its layers
};

}  // namespace trilith::inline v0
