// The sizes of Llamas against published figures, and what a shape must satisfy to be split over ranks.
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/nn/llama_shape.hpp>
#include <trilith/nn/llama_tensors.hpp>

namespace trilith {
namespace {

using testing::HasSubstr;

constexpr LlamaShape llama_3_8b;
constexpr LlamaShape llama_2_7b{
    .kv_heads = 32, .feed_forward = 11008, .positions = 4096, .vocabulary = 32000, .rope_theta = 10000};
constexpr LlamaShape llama_3_2_1b{.layers = 16,
                                  .hidden = 2048,
                                  .head_dimension = 64,
                                  .feed_forward = 8192,
                                  .positions = 131072,
                                  .tied = true};
constexpr LlamaShape tiny{.layers = 3,
                          .hidden = 10,
                          .heads = 6,
                          .kv_heads = 2,
                          .head_dimension = 4,
                          .feed_forward = 14,
                          .positions = 7,
                          .vocabulary = 11};

// What Hugging Face counts in these models.
TEST(LlamaShape, HasThePublishedNumbersOfParameters) {
  static_assert(llama_3_8b.parameters() == 8'030'261'248);
  static_assert(llama_2_7b.parameters() == 6'738'415'616);
  static_assert(llama_3_2_1b.parameters() == 1'235'814'400);
}

TEST(LlamaShape, CountsTheElementsOfAllItsTensors) {
  LlamaShape tied = tiny;
  tied.tied = true;
  for (const LlamaShape& shape : {llama_3_8b, llama_2_7b, llama_3_2_1b, tiny, tied}) {
    Index elements = 0;
    for (const NamedShape& tensor : llama_tensors(shape)) {
      Index product = 1;
      for (const Index extent : tensor.shape) product *= extent;
      elements += product;
    }
    EXPECT_EQ(shape.parameters(), elements);
  }
}

std::string refusal(const LlamaShape& shape, const ParallelShape& parallel = {}) {
  try {
    check(shape, parallel);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The sentences are those of test/compile_fail, where the compiler says them.
TEST(CheckLlamaShape, RefusesAModelWithoutAPart) {
  const auto refuses = testing::AllOf(HasSubstr("a Llama needs at least one layer"), HasSubstr("=0"));
  EXPECT_THAT(refusal({.layers = 0}), refuses);
  EXPECT_THAT(refusal({.hidden = 0}), refuses);
  EXPECT_THAT(refusal({.heads = 0}), refuses);
  EXPECT_THAT(refusal({.kv_heads = 0}), refuses);
  EXPECT_THAT(refusal({.head_dimension = 0}), refuses);
  EXPECT_THAT(refusal({.feed_forward = 0}), refuses);
  EXPECT_THAT(refusal({.positions = 0}), refuses);
  EXPECT_THAT(refusal({.vocabulary = 0}), refuses);
}

TEST(CheckLlamaShape, RefusesAModelTooLargeToCount) {
  EXPECT_THAT(refusal({.head_dimension = 1 << 30}), HasSubstr("2^20 units of all heads"));
  EXPECT_THAT(refusal({.feed_forward = (1 << 20) + 1}), HasSubstr("2^20 feed-forward units"));
}

TEST(CheckLlamaShape, RefusesHeadsThatCannotTurn) {
  EXPECT_EQ(refusal({.head_dimension = 7}),
            "a rotary embedding turns pairs: the dimension of a head must be even (head_dimension=7)");
}

TEST(CheckLlamaShape, RefusesHeadsThatCannotShareKeys) {
  EXPECT_EQ(refusal({.heads = 32, .kv_heads = 12}),
            "heads cannot share the key/value heads evenly: heads must be a multiple of kv_heads "
            "(32 heads, 12 key/value heads)");
}

TEST(CheckLlamaShape, RefusesSettingsThatGiveNoNumbers) {
  EXPECT_THAT(refusal({.rope_theta = 0}), HasSubstr("must be positive and finite (rope_theta=0"));
  EXPECT_THAT(refusal({.norm_epsilon = -1}), HasSubstr("norm_epsilon=-1"));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal({.rope_theta = infinity}), HasSubstr("must be positive and finite"));
  EXPECT_THAT(refusal({.norm_epsilon = infinity}), HasSubstr("must be positive and finite"));
}

TEST(CheckLlamaShape, RefusesWhatDoesNotDivideOverTensorRanks) {
  EXPECT_EQ(refusal({.heads = 12, .kv_heads = 12}, {.tensor = 8}),
            "heads cannot be split over TP: the number of heads must be a multiple of TP (12 heads, TP=8)");
  const std::string kv_heads =
      "key/value heads cannot be split over TP: their number must be a multiple of TP, or, with "
      "replicate_kv_heads, a divisor of it ";
  EXPECT_EQ(refusal({.kv_heads = 8}, {.tensor = 16}), kv_heads + "(8 key/value heads, TP=16)");
  EXPECT_EQ(refusal({.heads = 48, .kv_heads = 8, .replicate_kv_heads = true}, {.tensor = 12}),
            kv_heads + "(8 key/value heads, TP=12)");
  EXPECT_EQ(refusal({.feed_forward = 14335}, {.tensor = 2}),
            "feed-forward units cannot be split over TP: their number must be a multiple of TP "
            "(feed_forward=14335, TP=2)");
  EXPECT_EQ(
      refusal({.vocabulary = 3}, {.tensor = 4}),
      "vocabulary cannot be split over TP: every tensor rank needs at least one entry (vocabulary=3, TP=4)");
}

TEST(CheckLlamaShape, RefusesFewerLayersThanPipelineRanks) {
  EXPECT_EQ(refusal({.layers = 3}, {.pipeline = 4}),
            "layers cannot be split over PP: every pipeline rank needs at least one layer (3 layers, PP=4)");
}

TEST(CheckLlamaShape, AcceptsWhatCanBeSplit) {
  EXPECT_EQ(refusal({}), "no error");
  EXPECT_EQ(refusal({}, {.tensor = 8, .pipeline = 32, .data = 7, .context = 5}), "no error");
  EXPECT_EQ(refusal({.replicate_kv_heads = true}, {.tensor = 32}), "no error");
  // Heads need not make up the hidden units, and neither the vocabulary nor the layers need divide.
  EXPECT_EQ(refusal(tiny, {.tensor = 2, .pipeline = 2}), "no error");
}

TEST(LlamaShape, SharesOutCopiesOfKeyValueHeadsWhereAsked) {
  constexpr LlamaShape replicated{.kv_heads = 8, .replicate_kv_heads = true};
  static_assert(replicated.kv_copies(1) == 1 && replicated.kv_copies(8) == 1);
  static_assert(replicated.kv_copies(16) == 2 && replicated.kv_copies(32) == 4);
  static_assert(LlamaShape{}.kv_copies(16) == 1);
}

TEST(CheckedLlamaShape, IsTheShapeItChecks) {
  static_assert(CheckedLlamaShape<tiny, Parallelism<2, 3, 3>::shape>::s == tiny);
}

}  // namespace
}  // namespace trilith
