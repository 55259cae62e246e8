// The float64 reference equals an independent implementation: Hugging Face's Llama and PyTorch's autograd,
// both in float64.
#include "test/reference/llama_fixture.hpp"

#include <gtest/gtest.h>

#include "test/reference/expect_equal.hpp"

namespace trilith::reference {
namespace {

TEST(LlamaFixture, HoldsTheTensorsOfItsShape) {
  const LlamaFixture fixture = llama_fixture();
  expect_extents(fixture.weights, weight_extents(fixture.config));
}

TEST(LlamaFixture, LogitsEqualThoseOfTransformers) {
  const LlamaFixture fixture = llama_fixture();
  const Batch& batch = fixture.batch;
  expect_equal(logits(fixture.config, fixture.weights, batch.tokens, batch.sequences, batch.length),
               fixture.logits, "logits");
}

TEST(LlamaFixture, LossAndGradientsEqualThoseOfPyTorch) {
  const LlamaFixture fixture = llama_fixture();
  const auto [loss, gradients] = loss_and_gradients(fixture.config, fixture.weights, fixture.batch);
  EXPECT_NEAR(loss, fixture.loss, fixture_tolerance * fixture.loss);
  expect_equal(gradients, fixture.gradients);
}

}  // namespace
}  // namespace trilith::reference
