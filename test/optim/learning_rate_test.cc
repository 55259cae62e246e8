// The learning rate at each part of its course.
#include <cstdint>

#include <gtest/gtest.h>

#include <trilith/optim/learning_rate.hpp>

namespace trilith {
namespace {

constexpr CosineSchedule course{.peak = 1.0, .least = 0.1, .warm_up = 10, .steps = 110};

TEST(CosineSchedule, RisesInEqualStepsToThePeak) {
  for (std::int64_t step = 1; step <= 10; ++step) {
    EXPECT_DOUBLE_EQ(course.at(step), 0.1 * static_cast<double>(step)) << "step " << step;
  }
}

TEST(CosineSchedule, IsHighestAtTheEndOfTheWarmUp) {
  EXPECT_DOUBLE_EQ(course.at(10), 1.0);
  for (std::int64_t step = 1; step <= 200; ++step) EXPECT_LE(course.at(step), 1.0);
}

// (1 + cos(π x)) / 2 is 1, 3/4, 1/2, 1/4 and 0 at x = 0, 1/3, 1/2, 2/3 and 1.
TEST(CosineSchedule, FallsAlongHalfACosineToTheLeast) {
  constexpr CosineSchedule falls{.peak = 1.0, .least = 0.2, .warm_up = 10, .steps = 130};
  EXPECT_NEAR(falls.at(50), 0.2 + 0.8 * 0.75, 1e-15);
  EXPECT_NEAR(falls.at(70), 0.2 + 0.8 * 0.5, 1e-15);
  EXPECT_NEAR(falls.at(90), 0.2 + 0.8 * 0.25, 1e-15);
  EXPECT_DOUBLE_EQ(falls.at(130), 0.2);
  for (std::int64_t step = 11; step <= 130; ++step) EXPECT_LT(falls.at(step), falls.at(step - 1));
}

TEST(CosineSchedule, StaysAtTheLeastAfterItsSteps) {
  EXPECT_DOUBLE_EQ(course.at(110), 0.1);
  EXPECT_DOUBLE_EQ(course.at(111), 0.1);
  EXPECT_DOUBLE_EQ(course.at(1'000'000'000'000), 0.1);
}

TEST(CosineSchedule, BeginsBelowThePeakWithoutWarmUp) {
  constexpr CosineSchedule steep{.peak = 1.0, .least = 0.0, .steps = 2};
  EXPECT_NEAR(steep.at(1), 0.5, 1e-15);
  EXPECT_NEAR(steep.at(2), 0.0, 1e-15);
}

TEST(CosineSchedule, KeepsThePeakForEverWithoutSteps) {
  constexpr CosineSchedule endless{.peak = 1.0, .least = 0.1, .warm_up = 4};
  EXPECT_DOUBLE_EQ(endless.at(1), 0.25);
  EXPECT_DOUBLE_EQ(endless.at(4), 1.0);
  EXPECT_DOUBLE_EQ(endless.at(5), 1.0);
  EXPECT_DOUBLE_EQ(endless.at(1'000'000'000'000), 1.0);
  EXPECT_DOUBLE_EQ(CosineSchedule{.peak = 1.0}.at(1), 1.0);
}

TEST(CosineSchedule, NeverFallsWhereTheWarmUpTakesAllSteps) {
  constexpr CosineSchedule rises{.peak = 1.0, .least = 0.1, .warm_up = 4, .steps = 4};
  EXPECT_DOUBLE_EQ(rises.at(3), 0.75);
  EXPECT_DOUBLE_EQ(rises.at(4), 1.0);
  EXPECT_DOUBLE_EQ(rises.at(5), 1.0);
}

}  // namespace
}  // namespace trilith
