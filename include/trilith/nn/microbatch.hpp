// What one pass through a model works on.
#pragma once

#include <cstdint>

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

// rows() = batch · sequence rows of hidden units.
struct TokenShape {
  Index batch = 1;
  Index sequence = 1;

  constexpr Index rows() const { return batch * sequence; }
  friend constexpr bool operator==(const TokenShape&, const TokenShape&) = default;
};

// The tokens of one microbatch and what they should be followed by, in device memory.
struct Microbatch {
  TokenShape shape;
  Vector<const std::int32_t> tokens;   // (rows)
  Vector<const std::int32_t> targets;  // (rows): negative where none counts
};

}  // namespace trilith::inline v0
