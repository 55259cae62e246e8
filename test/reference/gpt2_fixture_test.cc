// The float64 reference equals an independent implementation: Hugging Face's GPT-2 and PyTorch's autograd and
// AdamW, both in float64.
#include "test/reference/gpt2_fixture.hpp"

#include <cstddef>

#include <gtest/gtest.h>

#include "test/reference/expect_equal.hpp"

namespace trilith::reference {
namespace {

TEST(Gpt2Fixture, HoldsTheTensorsOfItsShape) {
  const Gpt2Fixture fixture = gpt2_fixture();
  expect_extents(fixture.weights, weight_extents(fixture.shape));
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
  EXPECT_NEAR(loss, fixture.loss, fixture_tolerance * fixture.loss);
  expect_equal(gradients, fixture.gradients);
}

TEST(Gpt2Fixture, TrainedWeightsEqualThoseOfPyTorchsAdamW) {
  const Gpt2Fixture fixture = gpt2_fixture();
  Weights weights = fixture.weights;
  AdamWState state(weights);
  for (std::size_t step = 0; step < fixture.losses.size(); ++step) {
    const auto [loss, gradients] = loss_and_gradients(fixture.shape, weights, fixture.batch);
    EXPECT_NEAR(loss, fixture.losses[step], fixture_tolerance * fixture.losses[step]);
    const double norm = adamw_step(fixture.adamw, gradients, weights, state);
    EXPECT_NEAR(norm, fixture.norms[step], fixture_tolerance * fixture.norms[step]);
  }
  expect_equal(weights, fixture.trained);
}

}  // namespace
}  // namespace trilith::reference
