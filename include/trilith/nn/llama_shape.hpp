// The shape of a model of the Llama family, and what it must satisfy to be split over ranks.
//
// Each rule is written once, in the list below: check() throws it with the numbers of the run, and
// CheckedLlamaShape makes it a static_assert where the shape is a constant of the program.
#pragma once

#include <limits>
#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/parallel/parallelism.hpp>

namespace trilith::inline v0 {

// Defaults: Llama 3 8B.
struct LlamaShape {
  int layers = 32;
  int hidden = 4096;
  int heads = 32;
  int kv_heads = 8;          // of keys and values, each for heads / kv_heads of the queries' heads
  int head_dimension = 128;  // heads · head_dimension need not be hidden
  int feed_forward = 14336;  // hidden units of a block's SwiGLU
  int positions = 8192;      // longest sequence that the model is made for
  int vocabulary = 128256;
  float rope_theta = 500000;
  float norm_epsilon = 1e-5f;
  bool tied = false;  // the output head is the embedding's table
  // Of the layout, not of the model: more tensor ranks than key/value heads hold copies of them.
  bool replicate_kv_heads = false;
  friend constexpr bool operator==(const LlamaShape&, const LlamaShape&) = default;

  // Of all queries of a token together, and of its keys.
  constexpr Index query_width() const { return Index{heads} * head_dimension; }
  constexpr Index kv_width() const { return Index{kv_heads} * head_dimension; }

  // Tensor ranks that hold the same key/value heads.
  constexpr int kv_copies(int tensor_ranks) const {
    return replicate_kv_heads && tensor_ranks > kv_heads ? tensor_ranks / kv_heads : 1;
  }

  // Elements of all weights, a tied output head counted once.
  constexpr Index parameters() const {
    const Index h = hidden;
    const Index layer = 2 * h * (query_width() + kv_width()) + 3 * h * feed_forward + 2 * h;
    return (tied ? 1 : 2) * h * vocabulary + layers * layer + h;
  }
};

// (condition over `s`, a LlamaShape, and `p`, a ParallelShape; sentence; numbers for the run-time message)
#define TRILITH_LLAMA_RULES(RULE)                                                                          \
  RULE(s.layers > 0 && s.hidden > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dimension > 0 &&            \
           s.feed_forward > 0 && s.positions > 0 && s.vocabulary > 0,                                      \
       "a Llama needs at least one layer, hidden unit, head, key/value head, dimension of a head, "        \
       "feed-forward unit, position and vocabulary entry",                                                 \
       "layers=" + std::to_string(s.layers) + ", hidden=" + std::to_string(s.hidden) +                     \
           ", heads=" + std::to_string(s.heads) + ", kv_heads=" + std::to_string(s.kv_heads) +             \
           ", head_dimension=" + std::to_string(s.head_dimension) +                                        \
           ", feed_forward=" + std::to_string(s.feed_forward) +                                            \
           ", positions=" + std::to_string(s.positions) + ", vocabulary=" + std::to_string(s.vocabulary))  \
  RULE(s.layers <= 1 << 16 && s.hidden <= 1 << 18 && s.query_width() <= 1 << 20 &&                         \
           s.feed_forward <= 1 << 20 && s.positions <= 1 << 27 && s.vocabulary <= 1 << 27,                 \
       "a Llama has at most 2^16 layers, 2^18 hidden units, 2^20 units of all heads, 2^20 feed-forward "   \
       "units, 2^27 positions and 2^27 vocabulary entries",                                                \
       "layers=" + std::to_string(s.layers) + ", hidden=" + std::to_string(s.hidden) +                     \
           ", heads=" + std::to_string(s.heads) + ", head_dimension=" + std::to_string(s.head_dimension) + \
           ", feed_forward=" + std::to_string(s.feed_forward) +                                            \
           ", positions=" + std::to_string(s.positions) + ", vocabulary=" + std::to_string(s.vocabulary))  \
  RULE(s.head_dimension % 2 == 0, "a rotary embedding turns pairs: the dimension of a head must be even",  \
       "head_dimension=" + std::to_string(s.head_dimension))                                               \
  RULE(s.heads % s.kv_heads == 0,                                                                          \
       "heads cannot share the key/value heads evenly: heads must be a multiple of kv_heads",              \
       std::to_string(s.heads) + " heads, " + std::to_string(s.kv_heads) + " key/value heads")             \
  RULE(s.rope_theta > 0 && s.rope_theta <= std::numeric_limits<float>::max() && s.norm_epsilon > 0 &&      \
           s.norm_epsilon <= std::numeric_limits<float>::max(),                                            \
       "the base of a rotary embedding and the epsilon of a norm must be positive and finite",             \
       "rope_theta=" + std::to_string(s.rope_theta) + ", norm_epsilon=" + std::to_string(s.norm_epsilon))  \
  RULE(s.heads % p.tensor == 0,                                                                            \
       "heads cannot be split over TP: the number of heads must be a multiple of TP",                      \
       std::to_string(s.heads) + " heads, TP=" + std::to_string(p.tensor))                                 \
  RULE(s.kv_heads % p.tensor == 0 || (s.replicate_kv_heads && p.tensor % s.kv_heads == 0),                 \
       "key/value heads cannot be split over TP: their number must be a multiple of TP, or, with "         \
       "replicate_kv_heads, a divisor of it",                                                              \
       std::to_string(s.kv_heads) + " key/value heads, TP=" + std::to_string(p.tensor))                    \
  RULE(s.feed_forward % p.tensor == 0,                                                                     \
       "feed-forward units cannot be split over TP: their number must be a multiple of TP",                \
       "feed_forward=" + std::to_string(s.feed_forward) + ", TP=" + std::to_string(p.tensor))              \
  RULE(s.layers >= p.pipeline,                                                                             \
       "layers cannot be split over PP: every pipeline rank needs at least one layer",                     \
       std::to_string(s.layers) + " layers, PP=" + std::to_string(p.pipeline))                             \
  RULE(s.vocabulary >= p.tensor,                                                                           \
       "vocabulary cannot be split over TP: every tensor rank needs at least one entry",                   \
       "vocabulary=" + std::to_string(s.vocabulary) + ", TP=" + std::to_string(p.tensor))

// Throws Error with the first rule that `s` breaks under `p`.
inline void check(const LlamaShape& s, const ParallelShape& p) {
#define TRILITH_THROW(condition, sentence, numbers) \
  if (!(condition)) throw Error(std::string(sentence) + " (" + (numbers) + ")", "");
  TRILITH_LLAMA_RULES(TRILITH_THROW)
#undef TRILITH_THROW
}

// Does not compile where S breaks a rule under Parallelism<…>::shape P.
template <LlamaShape S, ParallelShape P>
struct CheckedLlamaShape {
  static constexpr LlamaShape s = S;
  static constexpr ParallelShape p = P;
#define TRILITH_ASSERT(condition, sentence, numbers) static_assert(condition, sentence);
  TRILITH_LLAMA_RULES(TRILITH_ASSERT)
#undef TRILITH_ASSERT
};

#undef TRILITH_LLAMA_RULES

}  // namespace trilith::inline v0
