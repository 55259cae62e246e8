// Law 1 for the Llama family: with all axes 1, loss, logits and gradients equal a plain float64 reference.

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/adamw.hpp"
#include "test/reference/llama.hpp"
#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"
#include "test/train/llama_models.hpp"

namespace trilith::test {
namespace {

// ‖a − b‖ / ‖b‖ of each tensor, as in reference_test.cc.
constexpr double tolerance = 3e-5;

struct Case {
  const char* what;
  LlamaShape shape;
  Index sequences;
  Index length;
  std::vector<int> microbatches;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.what; }
};

LlamaShape with_heads(int heads, int kv_heads, int dimension) {
  LlamaShape shape = odd_llama;
  shape.layers = 2;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dimension = dimension;
  return shape;
}

LlamaShape round() {
  return {.layers = 2,
          .hidden = 64,
          .heads = 8,
          .kv_heads = 2,
          .head_dimension = 16,
          .feed_forward = 96,
          .positions = 32,
          .vocabulary = 128,
          .rope_theta = 10000};
}

const std::vector<Case> cases = {
    {"nothing divides a vector", odd_llama, 6, 11, {1, 2, 3, 6}},
    {"tied", tied(odd_llama), 6, 11, {1, 3}},
    {"a key for each query", with_heads(3, 3, 10), 4, 9, {1, 2}},
    {"one key for all queries", with_heads(7, 1, 4), 4, 9, {1, 4}},
    {"pairs of two units", with_heads(6, 2, 2), 2, 12, {1}},
    {"round", round(), 4, 32, {1, 2, 4}},
    {"round and tied", tied(round()), 4, 32, {2}},
    {"sequences of one token", with_heads(4, 2, 6), 5, 1, {1, 5}},
};

class LlamaReference : public testing::TestWithParam<Case> {};

TEST_P(LlamaReference, LossNormAndGradientsEqualFloat64) {
  const auto& [what, shape, sequences, length, microbatches] = GetParam();
  const reference::LlamaConfig config = config_of(shape);
  const reference::Weights weights = reference::random_weights(config, 1);
  const Batch batch = reference::random_batch(shape, sequences, length, 2);
  const auto [loss, gradients] = reference::loss_and_gradients(config, weights, batch);

  for (const int m : microbatches) {
    SCOPED_TRACE(std::to_string(m) + " microbatches");
    const auto trainer = make_trainer({}, shape, options_for(batch, m));
    trainer->load(weights);
    // Twice: what the first pass left in gradients and activations must not show in the second.
    for (int pass = 0; pass < 2; ++pass) {
      const StepReport report = trainer->gradients(batch);
      EXPECT_NEAR(report.loss, loss, tolerance * loss);
      EXPECT_NEAR(report.gradient_norm, reference::global_norm(gradients), tolerance * report.gradient_norm);
      expect_close(trainer->gradient_tensors(), gradients, tolerance);
    }
  }
}

TEST_P(LlamaReference, LogitsOfEveryPrefixEqualFloat64) {
  const auto& [what, shape, sequences, length, microbatches] = GetParam();
  const reference::LlamaConfig config = config_of(shape);
  const reference::Weights weights = reference::random_weights(config, 5);
  const Batch batch = reference::random_batch(shape, sequences, length, 6);
  const auto trainer = make_trainer({}, shape, options_for(batch, 1));
  trainer->load(weights);
  for (Index count = 1; count <= length; count += 1 + length / 7) {
    const std::vector<std::int32_t> prefix(batch.tokens.begin(), batch.tokens.begin() + count);
    const reference::Values all = reference::logits(config, weights, prefix, 1, count);
    const reference::Values last(all.end() - shape.vocabulary, all.end());
    expect_close(Tensors<float>{{"logits", trainer->next_token_logits(prefix)}},
                 Tensors<double>{{"logits", last}}, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LlamaReference, testing::ValuesIn(cases));

}  // namespace
}  // namespace trilith::test
