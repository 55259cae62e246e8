// The shape of a GPT-2 style model, and what it must satisfy to be split over ranks.
//
// Each rule is written once, in the list below: check() throws it with the numbers of the run, and
// CheckedGptShape makes it a static_assert where the shape is a constant of the program.
#pragma once

#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/parallel/parallelism.hpp>

namespace trilith::inline v0 {

// Defaults: GPT-2 124M.
struct GptShape {
  int layers = 12;
  int hidden = 768;
  int heads = 12;
  int positions = 1024;  // longest sequence the learned positions reach
  int vocabulary = 50257;
  friend constexpr bool operator==(const GptShape&, const GptShape&) = default;

  constexpr int head_dimension() const { return hidden / heads; }
  constexpr Index feed_forward() const { return Index{4} * hidden; }

  // Elements of all weights, the tied output head counted once.
  constexpr Index parameters() const {
    const Index h = hidden;
    return (vocabulary + positions) * h + layers * (12 * h * h + 13 * h) + 2 * h;
  }
};

// (condition over `s`, a GptShape, and `p`, a ParallelShape; sentence; numbers for the run-time message)
#define TRILITH_GPT_RULES(RULE)                                                                              \
  RULE(s.layers > 0 && s.hidden > 0 && s.heads > 0 && s.positions > 0 && s.vocabulary > 0,                   \
       "a GPT needs at least one layer, hidden unit, head, position and vocabulary entry",                   \
       "layers=" + std::to_string(s.layers) + ", hidden=" + std::to_string(s.hidden) +                       \
           ", heads=" + std::to_string(s.heads) + ", positions=" + std::to_string(s.positions) +             \
           ", vocabulary=" + std::to_string(s.vocabulary))                                                   \
  RULE(s.layers <= 1 << 16 && s.hidden <= 1 << 18 && s.positions <= 1 << 27 && s.vocabulary <= 1 << 27,      \
       "a GPT has at most 2^16 layers, 2^18 hidden units, 2^27 positions and 2^27 vocabulary entries",       \
       "layers=" + std::to_string(s.layers) + ", hidden=" + std::to_string(s.hidden) +                       \
           ", positions=" + std::to_string(s.positions) + ", vocabulary=" + std::to_string(s.vocabulary))    \
  RULE(s.hidden % s.heads == 0, "hidden cannot be split over the heads: hidden must be a multiple of heads", \
       "hidden=" + std::to_string(s.hidden) + ", heads=" + std::to_string(s.heads))                          \
  RULE(s.heads % p.tensor == 0,                                                                              \
       "heads cannot be split over TP: the number of heads must be a multiple of TP",                        \
       std::to_string(s.heads) + " heads, TP=" + std::to_string(p.tensor))                                   \
  RULE(s.layers >= p.pipeline,                                                                               \
       "layers cannot be split over PP: every pipeline rank needs at least one layer",                       \
       std::to_string(s.layers) + " layers, PP=" + std::to_string(p.pipeline))                               \
  RULE(s.vocabulary >= p.tensor,                                                                             \
       "vocabulary cannot be split over TP: every tensor rank needs at least one entry",                     \
       "vocabulary=" + std::to_string(s.vocabulary) + ", TP=" + std::to_string(p.tensor))

// Throws Error with the first rule that `s` breaks under `p`.
inline void check(const GptShape& s, const ParallelShape& p) {
#define TRILITH_THROW(condition, sentence, numbers) \
  if (!(condition)) throw Error(std::string(sentence) + " (" + (numbers) + ")", "");
  TRILITH_GPT_RULES(TRILITH_THROW)
#undef TRILITH_THROW
}

// Does not compile where S breaks a rule under Parallelism<…>::shape P.
template <GptShape S, ParallelShape P>
struct CheckedGptShape {
  static constexpr GptShape s = S;
  static constexpr ParallelShape p = P;
#define TRILITH_ASSERT(condition, sentence, numbers) static_assert(condition, sentence);
  TRILITH_GPT_RULES(TRILITH_ASSERT)
#undef TRILITH_ASSERT
};

#undef TRILITH_GPT_RULES

}  // namespace trilith::inline v0
