// The sizes of GPTs against published figures, and what a shape must satisfy to be split over ranks.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/gpt_tensors.hpp>

namespace trilith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr GptShape gpt3_175b{
    .layers = 96, .hidden = 12288, .heads = 96, .positions = 2048, .vocabulary = 51200};

// 12 L h² (1 + 13 / (12 h) + (V + s) / (12 L h)): Narayanan et al., "Efficient large-scale language model
// training on GPU clusters using Megatron-LM", SC 2021. The final norm's 2 h are not in it.
double published_formula(const GptShape& g) {
  const double h = g.hidden;
  const double layers = 12.0 * g.layers;
  return layers * h * h * (1 + 13 / (12 * h) + (g.vocabulary + g.positions) / (layers * h));
}

TEST(GptShape, HasAsManyParametersAsTheFormulaAndAFinalNorm) {
  for (const GptShape& shape : {GptShape{}, gpt3_175b, GptShape{3, 20, 5, 7, 11}, GptShape{1, 1, 1, 1, 1}}) {
    // The formula rounds in float64.
    const double expected = published_formula(shape) + 2 * shape.hidden;
    EXPECT_NEAR(static_cast<double>(shape.parameters()), expected, 1e-12 * expected);
  }
}

TEST(GptShape, OfGpt2Has124439808Parameters) {
  static_assert(GptShape{}.parameters() == 124439808);
}

TEST(GptShape, OfGpt3HasThePublishedNumberOfParameters) {
  EXPECT_NEAR(static_cast<double>(gpt3_175b.parameters()) * 1e-9, 174.6, 0.05);
}

// Table 1 of the same paper: billions of parameters for vocabulary 51200 and sequence 2048.
TEST(GptShape, HasThePublishedNumbersOfParameters) {
  struct Row {
    double billions;
    int heads, hidden, layers;
  };
  for (const Row& row :
       {Row{1.7, 24, 2304, 24}, Row{7.5, 32, 4096, 36}, Row{18.4, 48, 6144, 40}, Row{76.1, 80, 10240, 60},
        Row{145.6, 96, 12288, 80}, Row{529.6, 128, 20480, 105}, Row{1008.0, 160, 25600, 128}}) {
    const GptShape shape{row.layers, row.hidden, row.heads, 2048, 51200};
    EXPECT_NEAR(static_cast<double>(shape.parameters()) * 1e-9, row.billions, 0.05) << row.hidden;
  }
}

TEST(GptShape, CountsTheElementsOfAllItsTensors) {
  for (const GptShape& shape : {GptShape{}, gpt3_175b, GptShape{3, 20, 5, 7, 11}}) {
    Index elements = 0;
    for (const NamedShape& tensor : gpt2_tensors(shape)) {
      Index product = 1;
      for (const Index extent : tensor.shape) product *= extent;
      elements += product;
    }
    EXPECT_EQ(shape.parameters(), elements);
  }
}

std::string refusal(const GptShape& shape, const ParallelShape& parallel = {}) {
  try {
    check(shape, parallel);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The sentences are those of test/compile_fail, where the compiler says them.
TEST(CheckGptShape, RefusesAModelWithoutAPart) {
  const auto refuses =
      AllOf(HasSubstr("a GPT needs at least one layer, hidden unit, head, position and vocabulary entry"),
            HasSubstr("=0"));
  EXPECT_THAT(refusal({.layers = 0}), refuses);
  EXPECT_THAT(refusal({.hidden = 0}), refuses);
  EXPECT_THAT(refusal({.heads = 0}), refuses);
  EXPECT_THAT(refusal({.positions = 0}), refuses);
  EXPECT_THAT(refusal({.vocabulary = 0}), refuses);
  EXPECT_THAT(refusal({.heads = -12}), HasSubstr("heads=-12"));
}

TEST(CheckGptShape, RefusesHiddenUnitsThatDoNotDivideOverTheHeads) {
  EXPECT_EQ(
      refusal({.heads = 7}),
      "hidden cannot be split over the heads: hidden must be a multiple of heads (hidden=768, heads=7)");
}

TEST(CheckGptShape, RefusesHeadsThatDoNotDivideOverTensorRanks) {
  EXPECT_EQ(refusal({.heads = 12}, {.tensor = 8}),
            "heads cannot be split over TP: the number of heads must be a multiple of TP (12 heads, TP=8)");
}

TEST(CheckGptShape, RefusesFewerLayersThanPipelineRanks) {
  EXPECT_EQ(refusal({.layers = 3}, {.pipeline = 4}),
            "layers cannot be split over PP: every pipeline rank needs at least one layer (3 layers, PP=4)");
}

TEST(CheckGptShape, RefusesTensorRanksWithoutVocabulary) {
  EXPECT_EQ(
      refusal({.vocabulary = 3}, {.tensor = 4}),
      "vocabulary cannot be split over TP: every tensor rank needs at least one entry (vocabulary=3, TP=4)");
}

TEST(CheckGptShape, AcceptsWhatCanBeSplit) {
  EXPECT_EQ(refusal({}), "no error");
  EXPECT_EQ(refusal({}, {.tensor = 12, .pipeline = 12, .data = 7}), "no error");
  // Neither the vocabulary nor the layers need divide.
  EXPECT_EQ(refusal({.layers = 5, .vocabulary = 50257}, {.tensor = 2, .pipeline = 4}), "no error");
}

TEST(CheckedGptShape, IsTheShapeItChecks) {
  constexpr GptShape shape{.layers = 4, .hidden = 32, .heads = 4};
  static_assert(CheckedGptShape<shape, Parallelism<2, 4, 3>::shape>::s == shape);
  static_assert(CheckedGptShape<shape, Parallelism<2, 4, 3>::shape>::p == ParallelShape{2, 4, 3, 1});
}

}  // namespace
}  // namespace trilith
