#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/simd.hpp>

namespace trilith::ops::simd {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The distance in units of the last place of `expected`, rounded to float.
double ulps(float actual, double expected) {
  const float rounded = static_cast<float>(expected);
  const double ulp = double{std::nextafter(std::abs(rounded), infinity)} - std::abs(double{rounded});
  return std::abs(double{actual} - expected) / ulp;
}

float exp_of(float x) {
  return exp(broadcast(x))[0];
}
float sqrt_of(float x) {
  return sqrt(broadcast(x))[0];
}

TEST(Exp, IsWithinTwoUnitsInTheLastPlace) {
  for (float x = -86.6f; x <= 88.7f; x += 3e-4f) ASSERT_LE(ulps(exp_of(x), std::exp(double{x})), 2) << x;
}

TEST(Exp, SaturatesAndKeepsNan) {
  EXPECT_EQ(exp_of(0), 1.0f);
  for (float x : {-86.7f, -1e4f, -1e38f, -infinity}) EXPECT_EQ(exp_of(x), 0.0f);
  for (float x : {88.8f, 1e4f, 1e38f, infinity}) EXPECT_EQ(exp_of(x), infinity);
  EXPECT_TRUE(std::isnan(exp_of(nan)));
}

TEST(ExpBounded, HasTheBitsOfExp) {
  for (float x = -86.6f; x <= 88.7f; x += 3e-4f) ASSERT_EQ(exp_bounded(broadcast(x))[0], exp_of(x)) << x;
  EXPECT_EQ(exp_bounded(broadcast(-86.6f))[0], exp_of(-86.6f));
  EXPECT_EQ(exp_bounded(broadcast(88.7f))[0], exp_of(88.7f));
}

TEST(Sqrt, IsWithinOneUnitInTheLastPlace) {
  for (float x = std::numeric_limits<float>::min(); x < 3e38f; x *= 1.0002f) {
    ASSERT_LE(ulps(sqrt_of(x), std::sqrt(double{x})), 1) << x;
  }
  EXPECT_LE(ulps(sqrt_of(std::numeric_limits<float>::max()), 0x1.fffffep63), 1);
}

TEST(Sqrt, TakesSubnormalNumbersAsZeroAndKeepsInfinityAndNan) {
  EXPECT_EQ(sqrt_of(0), 0.0f);
  EXPECT_EQ(sqrt_of(1e-39f), 0.0f);
  EXPECT_EQ(sqrt_of(infinity), infinity);
  EXPECT_TRUE(std::isnan(sqrt_of(nan)));
}

TEST(Vectors, CoverEveryElementOnce) {
  for (Index count = 0; count < 200; ++count) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
    std::vector<float> y(x.size(), 0.0f);
    for_each_vector(count, [&](Index i, auto w) {
      store_first(&y[static_cast<std::size_t>(i)], load_first(&x[static_cast<std::size_t>(i)], w) * 2.0f, w);
    });
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]);

    const auto term = [&](Index i, auto w) { return load_first(&x[static_cast<std::size_t>(i)], w); };
    // Whole numbers this small are added exactly.
    EXPECT_EQ(sum(sum_vectors(count, term)), static_cast<float>(count * (count + 1) / 2));
    const auto larger = [](Floats a, Floats b) { return max(a, b); };
    EXPECT_EQ(max(fold_vectors(count, broadcast(0), larger, term)), static_cast<float>(count));
  }
}

// Relative up to 1/2, where 1 - 2 / (e^2|x| + 1) would cancel; absolute beyond, where the result is near 1.
TEST(Tanh, KeepsItsStatedErrorAndItsLimits) {
  double relative = 0;
  double absolute = 0;
  for (int i = 1; i <= 200'000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;  // up to 20
    for (const float signed_x : {x, -x}) {
      const double expected = std::tanh(double{signed_x});
      const double error = std::abs(double{tanh(broadcast(signed_x))[0]} - expected);
      if (x < 0.5f) {
        relative = std::max(relative, error / std::abs(expected));
      } else {
        absolute = std::max(absolute, error);
      }
    }
  }
  EXPECT_LE(relative, 2e-7);
  EXPECT_LE(absolute, 1.5e-7);

  const auto of = [](float x) { return tanh(broadcast(x))[0]; };
  EXPECT_EQ(of(0), 0);
  EXPECT_EQ(of(1e-30f), 1e-30f);
  EXPECT_EQ(of(1e30f), 1);
  EXPECT_EQ(of(-infinity), -1);
  EXPECT_TRUE(std::isnan(of(nan)));
}

}  // namespace
}  // namespace trilith::ops::simd
