#include <cmath>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/adamw.hpp>

#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class AdamWKernel : public testing::Test {};
TYPED_TEST_SUITE(AdamWKernel, ElementTypes);

constexpr ops::AdamW settings{.learning_rate = 1e-2f};

template <class T>
struct State {
  Elements<float> parameters;
  Elements<float> first;
  Elements<float> second;
  Elements<T> weights;

  explicit State(Index size, Index shift = 0)
      : parameters(random_elements<float>(size, 1, 1, 0, shift)),
        first(random_elements<float>(size, 2)),
        second(size),
        weights(size) {
    for (Index i = 0; i < size; ++i) second[i] = first[i] * first[i];
  }
  bool operator==(const State&) const = default;

  void step(const Emulated::Stream& s, int step, float scale, const Elements<float>& gradients) {
    if constexpr (half<T>) {
      ops::adamw(s, settings, step, scale, parameters.vector(), gradients.vector(), first.vector(),
                 second.vector(), weights.vector());
    } else {
      ops::adamw(s, settings, step, scale, parameters.vector(), gradients.vector(), first.vector(),
                 second.vector());
    }
  }
};

// As PyTorch documents it, in float64.
TYPED_TEST(AdamWKernel, EqualsTheReference) {
  using T = TypeParam;
  for (const Index size : {1, 7, 33, 1000, 4099}) {
    for (const Index shift : {0, 1}) {
      SCOPED_TRACE(testing::Message() << size << " elements, shifted by " << shift);
      const auto gradients = random_elements<float>(size, 3, 1e-3f);
      const State<T> before(size, shift);
      const auto after = in_every_order([&](const Emulated::Stream& s) {
        State<T> state = before;
        state.step(s, 3, 0.5f, gradients);
        return state;
      });
      const double beta1 = double{settings.beta1};
      const double beta2 = double{settings.beta2};
      const auto first = [&](Index, Index i) {
        return Near{beta1 * before.first[i] + (1 - beta1) * 0.5 * gradients[i],
                    0x1p-22 * std::abs(before.first[i])};
      };
      const auto second = [&](Index, Index i) {
        const double v = beta2 * before.second[i] + (1 - beta2) * 0.25 * gradients[i] * gradients[i];
        return Near{v, 0x1p-22 * v};
      };
      const auto parameter = [&](Index, Index i) {
        const double rate = double{settings.learning_rate};
        const double m = first(0, i).value / (1 - std::pow(beta1, 3));
        const double v = second(0, i).value / (1 - std::pow(beta2, 3));
        const double kept = before.parameters[i] * (1 - rate * double{settings.weight_decay});
        const double update = rate * m / (std::sqrt(v) + double{settings.epsilon});
        return Near{kept - update, 0x1p-23 * std::abs(kept) + 0x1p-20 * rate};
      };
      expect_near(after.first, first);
      expect_near(after.second, second);
      expect_near(after.parameters, parameter);
      if constexpr (half<T>) {
        // Of the float32 parameter, rounded once.
        for (Index i = 0; i < size; ++i) {
          ASSERT_EQ(after.weights[i], static_cast<float>(T(static_cast<float>(after.parameters[i]))));
        }
      }
    }
  }
}

TYPED_TEST(AdamWKernel, MovesWholeSectors) {
  using T = TypeParam;
  const Emulated::Stream s;
  State<T> state(4096);
  state.step(s, 1, 1, random_elements<float>(4096, 3));
  expect_coalesced(s);
  EXPECT_EQ(s.counters().global_loads.bytes, 4 * 4 * 4096);
  EXPECT_EQ(s.counters().global_stores.bytes, (3 * 4 + (half<T> ? 2 : 0)) * 4096);
}

}  // namespace
}  // namespace trilith::test
