// The alphabet of pipeline programs: what one rank does, one action after the other.
#pragma once

#include <string>
#include <vector>

namespace trilith::inline v0::schedule {

// `backward` is both parts of a backward pass, the gradient of the input and then that of the weights.
enum class Pass { forward, backward, backward_input, backward_weight };

constexpr const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward";
    case Pass::backward: return "backward";
    case Pass::backward_input: return "input part of backward";
    case Pass::backward_weight: return "weight part of backward";
  }
  return "";
}

struct Action {
  Pass pass;
  int microbatch;
  int chunk;                     // which of this rank's stages
  bool fused_with_next = false;  // overlapped with the following action, as one
  friend constexpr bool operator==(const Action&, const Action&) = default;
};

inline std::string name_of(const Action& action) {
  return std::string(name_of(action.pass)) + " of microbatch " + std::to_string(action.microbatch) +
         ", chunk " + std::to_string(action.chunk);
}

using Program = std::vector<Action>;  // of one rank

constexpr bool computes_input_gradient(Pass pass) {
  return pass == Pass::backward || pass == Pass::backward_input;
}

// The pass after which a microbatch no longer needs what its forward pass has stored.
constexpr bool releases_activations(Pass pass) {
  return pass == Pass::backward || pass == Pass::backward_weight;
}

}  // namespace trilith::inline v0::schedule
