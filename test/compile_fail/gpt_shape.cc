// Does not compile: each case breaks one rule of GptShape. nn/gpt_shape_test.cc has the same sentences at run
// time.
#include <trilith/nn/gpt_shape.hpp>

namespace trilith {

#ifdef NO_LAYERS
constexpr GptShape shape = CheckedGptShape<GptShape{.layers = 0}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef NO_HEADS
constexpr GptShape shape = CheckedGptShape<GptShape{.heads = 0}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef HIDDEN_OVER_HEADS
constexpr GptShape shape = CheckedGptShape<GptShape{.heads = 7}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef HEADS_OVER_TENSOR_RANKS
constexpr GptShape shape = CheckedGptShape<GptShape{.heads = 12}, Parallelism<8, 1, 1>::shape>::s;
#endif
#ifdef LAYERS_OVER_PIPELINE_RANKS
constexpr GptShape shape = CheckedGptShape<GptShape{.layers = 12}, Parallelism<1, 16, 1>::shape>::s;
#endif
#ifdef VOCABULARY_OVER_TENSOR_RANKS
constexpr GptShape shape = CheckedGptShape<GptShape{.vocabulary = 3}, Parallelism<4, 1, 1>::shape>::s;
#endif

}  // namespace trilith
