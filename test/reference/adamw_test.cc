// gpt2_fixture_test.cc compares three steps with PyTorch's; here is what holds for any.
#include "test/reference/adamw.hpp"

#include <gtest/gtest.h>

#include "test/reference/gpt.hpp"
#include "test/reference/llama.hpp"

namespace trilith::reference {
namespace {

TEST(AdamW, FirstStepMovesByTheLearningRateAgainstTheSignOfTheGradient) {
  Weights weights{{"ln_f.bias", {1.0, 2.0, 3.0}}};
  AdamWState state(weights);
  adamw_step({.learning_rate = 0.25, .epsilon = 0}, {{"ln_f.bias", {1e-7, -5.0, 40.0}}}, weights, state);
  EXPECT_DOUBLE_EQ(weights["ln_f.bias"][0], 0.75);
  EXPECT_DOUBLE_EQ(weights["ln_f.bias"][1], 2.25);
  EXPECT_DOUBLE_EQ(weights["ln_f.bias"][2], 2.75);
}

TEST(AdamW, WithoutGradientOnlyMatricesDecay) {
  const GptShape gpt{.layers = 1, .hidden = 2, .heads = 1, .positions = 2, .vocabulary = 3};
  const LlamaConfig llama{.layers = 1,
                          .hidden = 2,
                          .heads = 1,
                          .kv_heads = 1,
                          .dimension = 2,
                          .feed_forward = 3,
                          .vocabulary = 3};
  for (const auto& all : {weight_extents(gpt), weight_extents(llama)}) {
    Weights weights;
    for (const auto& [name, extents] : all) weights[name] = {2.0};
    AdamWState state(weights);
    adamw_step({.learning_rate = 0.5, .weight_decay = 0.25}, zeros_like(weights), weights, state);
    for (const auto& [name, extents] : all) {
      EXPECT_DOUBLE_EQ(weights[name][0], extents.size() == 2 ? 1.75 : 2.0) << name;
    }
  }
}

TEST(AdamW, ClippingScalesGradientsToTheLargestNormAndOnlyDown) {
  const Weights gradients{{"ln_f.bias", {6.0}}, {"wte.weight", {8.0}}};  // norm 10
  const auto moments = [&](double max_norm) {
    Weights weights = zeros_like(gradients);
    AdamWState state(weights);
    EXPECT_DOUBLE_EQ(adamw_step({.beta1 = 0, .max_norm = max_norm}, gradients, weights, state), 10);
    return state.first;
  };
  EXPECT_DOUBLE_EQ(moments(5)["ln_f.bias"][0], 3);
  EXPECT_DOUBLE_EQ(moments(5)["wte.weight"][0], 4);
  EXPECT_EQ(moments(10), gradients);
  EXPECT_EQ(moments(20), gradients);
}

}  // namespace
}  // namespace trilith::reference
