// Law 2 for the Llama family under schedules that hold several stages on a rank or split the backward. Its
// own head is not the embedding, even where one rank holds both.

#include <gtest/gtest.h>

#include <trilith/nn/llama.hpp>
#include <trilith/trilith.hpp>

#include "test/train/training.hpp"

namespace trilith {
namespace {

// At fixed DP, of 4 microbatches.
template <int DP, class... Policies>
void expect_the_bits_of_one_pipeline_rank() {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    const LlamaShape shape{.layers = 5,
                           .hidden = 10,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dimension = 6,
                           .feed_forward = 14,
                           .positions = 12,
                           .vocabulary = 37,
                           .tied = tied};
    const auto train = [&]<class Layout>() { return test::train<Layout, Llama>(shape, 4 * DP, 4); };
    const test::Training expected = train.template operator()<Config<Parallelism<1, 1, DP>>>();
    const auto expect_same = [&]<class Policy>() {
      EXPECT_EQ((train.template operator()<Config<Parallelism<1, 2, DP>, Schedule<Policy>>>()), expected)
          << Policy::name;
    };
    (expect_same.template operator()<Policies>(), ...);
  }
}

TEST(LlamaScheduleBits, AreThoseOfOnePipelineRank) {
  expect_the_bits_of_one_pipeline_rank<1, Interleaved<2>, ZeroBubbleH2, ZeroBubbleV, DualPipeV>();
}

// A bucket must wait for weight parts that come late.
TEST(LlamaScheduleBits, AreThoseOfOnePipelineRankWithDataRanks) {
  expect_the_bits_of_one_pipeline_rank<2, Interleaved<2>, ZeroBubbleH2, ZeroBubbleV>();
}

}  // namespace
}  // namespace trilith
