#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/adamw.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

struct State {
  Tensor parameters;
  Tensor first;
  Tensor second;

  explicit State(Index size) : parameters(random_tensor(size, 1)), first(size), second(size) {
    for (Index i = 0; i < size; ++i) first[i] = second[i] = 0;
  }
  void step(const Host::Stream& stream, const ops::AdamW& settings, int step, float scale,
            const Tensor& gradients) {
    ops::adamw(stream, settings, step, scale, parameters.vector(), gradients.vector(), first.vector(),
               second.vector());
  }
};

// As PyTorch documents it, in float64.
struct ReferenceState {
  Reference parameters;
  Reference first;
  Reference second;

  explicit ReferenceState(const State& state)
      : parameters(state.parameters.columns()),
        first(state.parameters.columns()),
        second(state.parameters.columns()) {
    for (Index i = 0; i < state.parameters.columns(); ++i) parameters[i] = double{state.parameters[i]};
  }
  void step(const ops::AdamW& settings, int step, double scale, const Tensor& gradients) {
    const double beta1 = double{settings.beta1};
    const double beta2 = double{settings.beta2};
    for (Index i = 0; i < gradients.columns(); ++i) {
      const double g = double{gradients[i]} * scale;
      parameters[i] -= double{settings.learning_rate} * double{settings.weight_decay} * parameters[i];
      first[i] = beta1 * first[i] + (1 - beta1) * g;
      second[i] = beta2 * second[i] + (1 - beta2) * g * g;
      const double m = first[i] / (1 - std::pow(beta1, step));
      const double v = second[i] / (1 - std::pow(beta2, step));
      parameters[i] -= double{settings.learning_rate} * m / (std::sqrt(v) + double{settings.epsilon});
    }
  }
};

TEST(AdamW, EqualsTheReferenceOverManySteps) {
  for (const Index size : {1, 7, 16, 17, 33, 1000}) {
    for (const ops::AdamW settings :
         {ops::AdamW{.learning_rate = 1e-2f},
          ops::AdamW{.learning_rate = 1e-3f, .beta1 = 0.8f, .beta2 = 0.999f, .weight_decay = 0.0f}}) {
      SCOPED_TRACE(size);
      State state(size);
      ReferenceState expected(state);
      for (int step = 1; step <= 50; ++step) {
        // Gradients of very different sizes, so that epsilon matters for some.
        const Tensor gradients = random_tensor(size, 10 + static_cast<std::uint64_t>(step),
                                               std::pow(10.0f, static_cast<float>(step % 12) - 10));
        state.step(Host::Stream(2), settings, step, 0.5f, gradients);
        expected.step(settings, step, 0.5, gradients);
      }
      // Fifty updates, each rounded to 2^-24 of a parameter.
      EXPECT_LE(relative_error(state.parameters, expected.parameters), 3e-6);
      EXPECT_LE(relative_error(state.first, expected.first), 1e-6);
      EXPECT_LE(relative_error(state.second, expected.second), 3e-6);
    }
  }
}

TEST(AdamW, FirstStepMovesByTheLearningRateAgainstTheSignOfTheGradient) {
  const Index size = 100;
  State state(size);
  const State before = state;
  const Tensor gradients = random_tensor(size, 2, 100.0f);
  state.step(Host::Stream(), {.learning_rate = 0.5f, .weight_decay = 0}, 1, 1.0f, gradients);
  for (Index i = 0; i < size; ++i) {
    const float expected = before.parameters[i] - std::copysign(0.5f, gradients[i]);
    EXPECT_NEAR(state.parameters[i], expected, 1e-6f);  // a few roundings of numbers up to 4
  }
}

TEST(AdamW, WithoutGradientOnlyDecays) {
  State state(Index{33});
  const State before = state;
  Tensor gradients(Index{33});
  for (Index i = 0; i < 33; ++i) gradients[i] = 0;
  state.step(Host::Stream(), {.learning_rate = 0.5f, .weight_decay = 0.25f}, 1, 1.0f, gradients);
  for (Index i = 0; i < 33; ++i) EXPECT_EQ(state.parameters[i], 0.875f * before.parameters[i]);
  EXPECT_TRUE(state.first == before.first);
  EXPECT_TRUE(state.second == before.second);
}

TEST(AdamW, SameBitsForAnyNumberOfThreads) {
  for (const Index size : {100000, 65537}) {
    const Tensor gradients = random_tensor(size, 3);
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      State state(size);
      for (int step = 1; step <= 3; ++step) {
        state.step(stream, {.learning_rate = 1e-2f}, step, 1.0f, gradients);
      }
      return std::vector<Tensor>{state.parameters, state.first, state.second};
    });
  }
}

}  // namespace
}  // namespace trilith
