// What one hop of a ring computes and sends, and from which length on the one hides the other.
//
// Of one layer and sequence. Derived in docs/ring_attention.md.
#pragma once

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

struct RingHop {
  double tokens;       // of a rank
  double heads;        // of queries
  double kv_heads;     // of keys and values
  double dimension;    // of a head
  bool causal = true;  // balanced over ranks, as in a zigzag: half of all scores

  // Two products with each score, of a multiplication and an addition for each element of a head.
  constexpr double forward_flops() const {
    return 4 * tokens * tokens * heads * dimension * (causal ? 0.5 : 1.0);
  }
  constexpr double backward_flops() const { return 2.5 * forward_flops(); }

  // element: bytes of an element of keys and values, and of their gradients.
  constexpr double forward_bytes(double element) const { return 2 * tokens * kv_heads * dimension * element; }
  constexpr double backward_bytes(double element, double gradient_element) const {
    return forward_bytes(element) + forward_bytes(gradient_element);
  }
};

// The ranks of a ring, as it meets them.
struct RingRates {
  double flops;             // that a rank achieves in a second
  double bytes_per_second;  // of its link, in one direction
};

// Tokens of a rank from which on a hop's computation takes as long as its transfer: one grows with their
// square, the other with their number.
constexpr double tokens_that_hide_forward(const RingHop& hop, const RingRates& rates, double element) {
  return hop.tokens * (hop.forward_bytes(element) / rates.bytes_per_second) /
         (hop.forward_flops() / rates.flops);
}
constexpr double tokens_that_hide_backward(const RingHop& hop, const RingRates& rates, double element,
                                           double gradient_element) {
  return hop.tokens * (hop.backward_bytes(element, gradient_element) / rates.bytes_per_second) /
         (hop.backward_flops() / rates.flops);
}

}  // namespace trilith::inline v0
