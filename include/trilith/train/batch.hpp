// A global batch: what all data ranks together train on in one step.
#pragma once

#include <cstdint>
#include <vector>

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

// A target that does not count: neither in the loss nor in the number of tokens it is a mean over.
inline constexpr std::int32_t ignored_target = -1;

struct Batch {
  Index sequences = 0;
  Index length = 0;
  std::vector<std::int32_t> tokens = {};   // (sequences, length)
  std::vector<std::int32_t> targets = {};  // (sequences, length): the token to predict at each place
};

}  // namespace trilith::inline v0
