// The layers of a model that one pipeline stage holds.
#pragma once

namespace trilith::inline v0 {

struct StageRange {
  int first_layer = 0;
  int layers = 0;
  bool first = true;  // begins with the embedding
  bool last = true;   // ends with the output head and the loss
  friend constexpr bool operator==(const StageRange&, const StageRange&) = default;
};

}  // namespace trilith::inline v0
