// The scale of a float16 loss: when it falls, when it rises, and that it stays a power of two.

#include <gtest/gtest.h>

#include <trilith/optim/loss_scale.hpp>

namespace trilith {
namespace {

TEST(DynamicLossScale, HalvesOnceItsHysteresisIsUsedUp) {
  DynamicLossScale scale({.initial = 1024, .hysteresis = 3});
  for (const double expected : {1024, 1024, 512, 256}) {
    scale.update(/*finite=*/false);
    EXPECT_EQ(scale.value(), expected);
  }
}

// A good step between overflows does not give the hysteresis back; only a doubling does.
TEST(DynamicLossScale, GoodStepsBetweenOverflowsAreNoPardon) {
  DynamicLossScale scale({.initial = 1024, .window = 3, .hysteresis = 2});
  scale.update(false);
  scale.update(true);
  scale.update(false);
  EXPECT_EQ(scale.value(), 512);
  for (int step = 0; step < 3; ++step) scale.update(true);
  EXPECT_EQ(scale.value(), 1024);
  scale.update(false);
  EXPECT_EQ(scale.value(), 1024);
  scale.update(false);
  EXPECT_EQ(scale.value(), 512);
}

TEST(DynamicLossScale, DoublesAfterAWindowWithoutOverflow) {
  DynamicLossScale scale({.initial = 8, .window = 4, .hysteresis = 1});
  for (int step = 1; step <= 12; ++step) {
    scale.update(true);
    EXPECT_EQ(scale.value(), step < 4 ? 8 : step < 8 ? 16 : step < 12 ? 32 : 64) << step;
  }
  scale.update(true);
  scale.update(true);
  scale.update(true);
  scale.update(false);  // the window begins anew
  EXPECT_EQ(scale.value(), 32);
  for (int step = 0; step < 3; ++step) scale.update(true);
  EXPECT_EQ(scale.value(), 32);
  scale.update(true);
  EXPECT_EQ(scale.value(), 64);
}

TEST(DynamicLossScale, NeverFallsBelowTheLeast) {
  DynamicLossScale scale({.initial = 4, .least = 2, .hysteresis = 1});
  for (int step = 0; step < 5; ++step) scale.update(false);
  EXPECT_EQ(scale.value(), 2);
}

}  // namespace
}  // namespace trilith
