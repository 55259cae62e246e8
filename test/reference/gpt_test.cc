// The float64 reference is held to what needs no other implementation: finite differences of its own loss
// for every gradient, and laws of the model for the loss itself. gpt2_fixture_test.cc compares it with
// figures of an independent one.
#include "test/reference/gpt.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"

namespace trilith::reference {
namespace {

// Nothing divides anything else, and one position is never reached.
constexpr GptShape small{.layers = 2, .hidden = 6, .heads = 3, .positions = 5, .vocabulary = 7};

TEST(Gpt, EveryGradientEqualsTheFiniteDifferencesOfTheLoss) {
  Weights weights = random_weights(small, 1);
  const Batch batch = random_batch(small, 2, 4, 2);
  const Weights gradients = loss_and_gradients(small, weights, batch).gradients;
  const auto loss = [&] {
    return cross_entropy(logits(small, weights, batch.tokens, batch.sequences, batch.length), batch.targets)
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
      EXPECT_NEAR(gradient, expected, 1e-6 * std::abs(expected) + 1e-10) << name << "[" << i << "]";
    }
  }
}

TEST(Gpt, LossWithoutKnowledgeIsTheLogarithmOfTheVocabulary) {
  Weights weights = random_weights(small, 3);
  std::fill(weights["wte.weight"].begin(), weights["wte.weight"].end(), 0.0);
  const Batch batch = random_batch(small, 2, 5, 4);
  EXPECT_NEAR(loss_and_gradients(small, weights, batch).loss, std::log(small.vocabulary), 1e-14);
}

TEST(Gpt, LogitsDoNotDependOnLaterTokensOrOtherSequences) {
  const Weights weights = random_weights(small, 5);
  Batch batch = random_batch(small, 2, 5, 6);
  const auto row = [&](Index sequence, Index position) {
    const Values all = logits(small, weights, batch.tokens, 2, 5);
    const auto first = all.begin() + (sequence * 5 + position) * small.vocabulary;
    return Values(first, first + small.vocabulary);
  };
  const Values before = row(0, 2);
  const Values changed = row(0, 3);
  const Values other = row(1, 4);
  batch.tokens[3] = (batch.tokens[3] + 1) % small.vocabulary;
  EXPECT_EQ(row(0, 2), before);
  EXPECT_NE(row(0, 3), changed);
  EXPECT_EQ(row(1, 4), other);
}

TEST(Gpt, LossIsTheMeanOverTheTargetsThatCount) {
  const Weights weights = random_weights(small, 7);
  Batch batch = random_batch(small, 1, 4, 8);
  const auto loss_with = [&](std::vector<std::int32_t> targets) {
    batch.targets = std::move(targets);
    return loss_and_gradients(small, weights, batch).loss;
  };
  const double first = loss_with({3, -1, -1, -1});
  const double second = loss_with({-1, 0, -1, -1});
  const double last = loss_with({-1, -1, -1, 6});
  EXPECT_NEAR(loss_with({3, 0, -1, 6}), (first + second + last) / 3, 1e-14);
}

TEST(Gpt, NoTargetThatCountsIsAnError) {
  Batch batch = random_batch(small, 1, 4, 9);
  std::fill(batch.targets.begin(), batch.targets.end(), ignored_target);
  EXPECT_THROW(loss_and_gradients(small, random_weights(small, 9), batch), Error);
}

// Attention is a softmax over keys, and what is added to every score of a row does not change it.
TEST(Gpt, GradientOfTheKeysBiasVanishes) {
  const Batch batch = random_batch(small, 2, 5, 10);
  const Weights gradients = loss_and_gradients(small, random_weights(small, 11), batch).gradients;
  const Values& bias = gradients.at("h.0.attn.c_attn.bias");
  for (Index i = 0; i < 3 * small.hidden; ++i) {
    const bool key = i / small.hidden == 1;
    EXPECT_EQ(std::abs(bias[i]) < 1e-15, key) << i;
  }
}

TEST(Gpt, TensorsAreThoseOfTheShape) {
  Index parameters = 0;
  for (const auto& [name, values] : random_weights(small, 12)) parameters += std::ssize(values);
  EXPECT_EQ(parameters, small.parameters());
}

}  // namespace
}  // namespace trilith::reference
