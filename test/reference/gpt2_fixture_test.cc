// The float64 reference equals an independent implementation: Hugging Face's GPT-2 and PyTorch's autograd and
// AdamW, both in float64.
#include "test/reference/gpt2_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace trilith::reference {
namespace {

// The figures carry 12 digits. Values of a tensor are compared at its own scale: those that vanish, such as
// the gradient of the key's bias, are rounding in both.
constexpr double tolerance = 1e-10;

void expect_equal(const Values& actual, const Values& expected, const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double scale = 0;
  for (double x : expected) scale = std::max(scale, std::abs(x));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * scale) << name << "[" << i << "]";
  }
}

void expect_equal(const Weights& actual, const Weights& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) expect_equal(actual.at(name), values, name);
}

TEST(Gpt2Fixture, HoldsTheTensorsOfItsShape) {
  const Gpt2Fixture fixture = gpt2_fixture();
  const auto extents = weight_extents(fixture.shape);
  ASSERT_EQ(fixture.weights.size(), extents.size());
  for (const auto& [name, dimensions] : extents) {
    Index size = 1;
    for (Index extent : dimensions) size *= extent;
    EXPECT_EQ(std::ssize(fixture.weights.at(name)), size) << name;
  }
}

TEST(Gpt2Fixture, LogitsEqualThoseOfTransformers) {
  const Gpt2Fixture fixture = gpt2_fixture();
  const Batch& batch = fixture.batch;
  expect_equal(logits(fixture.shape, fixture.weights, batch.tokens, batch.sequences, batch.length),
               fixture.logits, "logits");
}

TEST(Gpt2Fixture, LossAndGradientsEqualThoseOfPyTorch) {
  const Gpt2Fixture fixture = gpt2_fixture();
  const auto [loss, gradients] = loss_and_gradients(fixture.shape, fixture.weights, fixture.batch);
  EXPECT_NEAR(loss, fixture.loss, tolerance * fixture.loss);
  expect_equal(gradients, fixture.gradients);
}

TEST(Gpt2Fixture, TrainedWeightsEqualThoseOfPyTorchsAdamW) {
  const Gpt2Fixture fixture = gpt2_fixture();
  Weights weights = fixture.weights;
  AdamWState state(weights);
  for (std::size_t step = 0; step < fixture.losses.size(); ++step) {
    const auto [loss, gradients] = loss_and_gradients(fixture.shape, weights, fixture.batch);
    EXPECT_NEAR(loss, fixture.losses[step], tolerance * fixture.losses[step]);
    const double norm = adamw_step(fixture.adamw, gradients, weights, state);
    EXPECT_NEAR(norm, fixture.norms[step], tolerance * fixture.norms[step]);
  }
  expect_equal(weights, fixture.trained);
}

}  // namespace
}  // namespace trilith::reference
