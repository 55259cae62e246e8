// Llamas for tests: what they are to the reference, and shapes in which little divides.
#pragma once

#include <trilith/nn/llama_shape.hpp>

#include "test/reference/llama.hpp"

namespace trilith::test {

inline reference::LlamaConfig config_of(const LlamaShape& shape) {
  return {.layers = shape.layers,
          .hidden = shape.hidden,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .dimension = shape.head_dimension,
          .feed_forward = shape.feed_forward,
          .vocabulary = shape.vocabulary,
          .theta = double{shape.rope_theta},
          .epsilon = double{shape.norm_epsilon},
          .tied = shape.tied};
}

// For TP up to 4: what is split is odd, or divides into odd parts. A vocabulary of 37 is padded to 38 and 40;
// a rank's weights do not fill cache lines, so that those side by side meet within one.
inline constexpr LlamaShape odd_llama{.layers = 5,
                                      .hidden = 18,
                                      .heads = 12,
                                      .kv_heads = 4,
                                      .head_dimension = 6,
                                      .feed_forward = 28,
                                      .positions = 12,
                                      .vocabulary = 37,
                                      .rope_theta = 100,
                                      .norm_epsilon = 1e-3f};

inline constexpr LlamaShape tied(LlamaShape shape) {
  shape.tied = true;
  return shape;
}

}  // namespace trilith::test
