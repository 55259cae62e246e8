// Law 3 for the Llama family with ring attention at every combination of axes: rotary positions are those of
// the whole sequence, wherever a zigzag puts a row, and a key's gradient sums over the queries of all ranks.
#include <trilith/nn/llama.hpp>

#include "test/train/context_steps.hpp"

namespace trilith::test {
namespace {

template <class Layout>
void expect_steps(Index length, Padding padding = Padding::no) {
  for (const LlamaShape& shape : {context_llama, tied(context_llama)}) {
    SCOPED_TRACE(shape.tied ? "tied" : "untied");
    expect_the_steps_of_one_rank<Layout, Llama>(length, padding, shape);
  }
}

using Zigzagged = Attention<Ring, Zigzag>;

TEST(LlamaContextRing, OfTwoWithTensorPipelineAndDataRanksTakesTheStepsOfOneRank) {
  expect_steps<Config<Parallelism<2, 2, 2, 2>, Zigzagged>>(16);
}

TEST(LlamaContextRing, OfFourWithTensorPipelineAndDataRanksTakesTheStepsOfOneRank) {
  expect_steps<Config<Parallelism<2, 2, 2, 4>, Zigzagged>>(16);
}

// Of two tokens, not one: with a single key the gradients of queries and keys are nothing but rounding.
TEST(LlamaContextRing, PadsSequencesThatDoNotDivideWhereAsked) {
  for (const Index length : {11, 17, 2}) {
    expect_steps<Config<Parallelism<2, 2, 2, 2>, Zigzagged>>(length, Padding::yes);
  }
}

}  // namespace
}  // namespace trilith::test
