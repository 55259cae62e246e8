// The float64 reference is held to what needs no other implementation: finite differences of its own loss
// for every gradient, and laws of the model for the loss itself. llama_fixture_test.cc compares it with
// figures of an independent one.
#include "test/reference/llama.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"

namespace trilith::reference {
namespace {

// Nothing divides anything else but the heads their keys.
constexpr LlamaConfig untied{.layers = 2,
                             .hidden = 5,
                             .heads = 4,
                             .kv_heads = 2,
                             .dimension = 6,
                             .feed_forward = 7,
                             .vocabulary = 11,
                             .theta = 50,
                             .epsilon = 1e-3};
constexpr LlamaConfig tied{.layers = 1,
                           .hidden = 6,
                           .heads = 3,
                           .kv_heads = 1,
                           .dimension = 4,
                           .feed_forward = 5,
                           .vocabulary = 7,
                           .tied = true};

class Llama : public testing::TestWithParam<LlamaConfig> {};

TEST_P(Llama, EveryGradientEqualsTheFiniteDifferencesOfTheLoss) {
  const LlamaConfig& config = GetParam();
  Weights weights = random_weights(config, 1);
  const Batch batch = random_batch(config, 2, 4, 2);
  const Weights gradients = loss_and_gradients(config, weights, batch).gradients;
  ASSERT_EQ(gradients.size(), weight_extents(config).size());
  const auto loss = [&] {
    return cross_entropy(logits(config, weights, batch.tokens, batch.sequences, batch.length), batch.targets)
        .loss;
  };
  for (auto& [name, values] : weights) {
    ASSERT_EQ(gradients.at(name).size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double& entry = values[i];
      const double value = entry;
      const auto difference = [&](double step) {
        entry = value + step;
        const double above = loss();
        entry = value - step;
        const double below = loss();
        entry = value;
        return (above - below) / (2 * step);
      };
      // Two central differences, combined so that the error falls with the fourth power of the step.
      constexpr double step = 1e-3;
      const double expected = (4 * difference(step) - difference(2 * step)) / 3;
      const double gradient = gradients.at(name)[i];
      // The floor is for gradients that vanish: the rounding of the loss, 1e-16, over the step, and what is
      // left of the step's own error.
      EXPECT_NEAR(gradient, expected, 1e-6 * std::abs(expected) + 1e-9) << name << "[" << i << "]";
    }
  }
}

TEST_P(Llama, LossWithoutKnowledgeIsTheLogarithmOfTheVocabulary) {
  const LlamaConfig& config = GetParam();
  Weights weights = random_weights(config, 3);
  Values& head = weights[head_of(config)];
  std::fill(head.begin(), head.end(), 0.0);
  const Batch batch = random_batch(config, 2, 5, 4);
  EXPECT_NEAR(loss_and_gradients(config, weights, batch).loss, std::log(config.vocabulary), 1e-14);
}

TEST_P(Llama, LogitsDoNotDependOnLaterTokensOrOtherSequences) {
  const LlamaConfig& config = GetParam();
  const Weights weights = random_weights(config, 5);
  Batch batch = random_batch(config, 2, 5, 6);
  const auto row = [&](Index sequence, Index position) {
    const Values all = logits(config, weights, batch.tokens, 2, 5);
    const auto first = all.begin() + (sequence * 5 + position) * config.vocabulary;
    return Values(first, first + config.vocabulary);
  };
  const Values before = row(0, 2);
  const Values changed = row(0, 3);
  const Values other = row(1, 4);
  batch.tokens[3] = (batch.tokens[3] + 1) % config.vocabulary;
  EXPECT_EQ(row(0, 2), before);
  EXPECT_NE(row(0, 3), changed);
  EXPECT_EQ(row(1, 4), other);
}

INSTANTIATE_TEST_SUITE_P(Heads, Llama, testing::Values(untied, tied),
                         [](const auto& info) { return info.param.tied ? "Tied" : "Untied"; });

// A group of heads shares what one head with the same keys would see: with every key and value of a group
// repeated, the model with as many kv_heads as heads computes the same.
TEST(LlamaGroups, EqualHeadsWithRepeatedKeys) {
  LlamaConfig whole = untied;
  whole.kv_heads = whole.heads;
  const Weights shared = random_weights(untied, 7);
  Weights repeated = shared;
  for (auto& [name, values] : repeated) {
    if (name.find("k_proj") == std::string::npos && name.find("v_proj") == std::string::npos) continue;
    const Index head = Index{untied.dimension} * untied.hidden;
    Values all;
    for (Index h = 0; h < untied.heads; ++h) {
      const auto first = values.begin() + h / 2 * head;
      all.insert(all.end(), first, first + head);
    }
    values = all;
  }
  const Batch batch = random_batch(untied, 2, 5, 8);
  const Values a = logits(untied, shared, batch.tokens, 2, 5);
  const Values b = logits(whole, repeated, batch.tokens, 2, 5);
  EXPECT_EQ(a, b);
}

// Where all tokens are equal, position 1 scores 0 as 4 scores 3.
TEST(LlamaRotary, ScoresDependOnDistancesAlone) {
  const AttentionLayout at{1, 5, 1, 1, 6};
  Values qkv(5 * at.row());
  for (Index row = 0; row < 5; ++row) {
    for (Index i = 0; i < at.row(); ++i) qkv[row * at.row() + i] = std::sin(static_cast<double>(i));
  }
  const Values turned = rotary(qkv, at, 50);
  const auto score = [&](Index i, Index j) {
    const auto q = turned.begin() + at.query(0, 0, i);
    return std::inner_product(q, q + at.dimension, turned.begin() + at.key(0, 0, j), 0.0);
  };
  EXPECT_NEAR(score(1, 0), score(4, 3), 1e-14);
  EXPECT_NEAR(score(3, 1), score(4, 2), 1e-14);
  EXPECT_GT(std::abs(score(1, 0) - score(2, 0)), 1e-3);
}

}  // namespace
}  // namespace trilith::reference
