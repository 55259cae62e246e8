// Does not compile: each case breaks one rule of LlamaShape. nn/llama_shape_test.cc has the same sentences at
// run time.
#include <trilith/nn/llama_shape.hpp>

namespace trilith {

#ifdef NO_KV_HEADS
constexpr LlamaShape shape = CheckedLlamaShape<LlamaShape{.kv_heads = 0}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef ODD_HEADS
constexpr LlamaShape shape =
    CheckedLlamaShape<LlamaShape{.head_dimension = 7}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef HEADS_OVER_KV_HEADS
constexpr LlamaShape shape = CheckedLlamaShape<LlamaShape{.kv_heads = 12}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef NO_EPSILON
constexpr LlamaShape shape = CheckedLlamaShape<LlamaShape{.norm_epsilon = 0}, Parallelism<1, 1, 1>::shape>::s;
#endif
#ifdef KV_HEADS_OVER_TENSOR_RANKS
constexpr LlamaShape shape = CheckedLlamaShape<LlamaShape{.kv_heads = 8}, Parallelism<16, 1, 1>::shape>::s;
#endif
#ifdef FEED_FORWARD_OVER_TENSOR_RANKS
constexpr LlamaShape shape =
    CheckedLlamaShape<LlamaShape{.feed_forward = 14335}, Parallelism<2, 1, 1>::shape>::s;
#endif

}  // namespace trilith
