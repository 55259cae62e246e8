#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/gelu.hpp>

#include "test/support/activations_reference.hpp"
#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class GeluKernels : public testing::Test {};
TYPED_TEST_SUITE(GeluKernels, ElementTypes);

// From −20 to 20, and powers of ten of both signs.
template <class T>
Elements<T> sweep() {
  constexpr Index steps = 4001;
  constexpr Index powers = 68;
  Elements<T> x(steps + 2 * powers);
  for (Index i = 0; i < steps; ++i) x[i] = T(static_cast<float>(-20 + 0.01 * static_cast<double>(i)));
  for (Index i = 0; i < powers; ++i) {
    const auto power = static_cast<float>(std::pow(10, -30 + 0.5 * static_cast<double>(i)));
    x[steps + 2 * i] = T(power);
    x[steps + 2 * i + 1] = T(-power);
  }
  return x;
}

TYPED_TEST(GeluKernels, OfEveryNumberIsWithinItsBound) {
  using T = TypeParam;
  const auto x = sweep<T>();
  const auto y = in_every_order([&](const Emulated::Stream& s) {
    Elements<T> result(x.columns());
    ops::gelu(s, x.matrix(), result.matrix());
    return result;
  });
  const auto d = in_every_order([&](const Emulated::Stream& s) {
    Elements<T> result(x.columns());
    ops::fill(s, result.vector(), -3.0f);
    ops::gelu_backward(s, x.matrix(), result.matrix());
    return result;
  });
  for (Index i = 0; i < x.columns(); ++i) {
    if (std::isinf(x[i])) continue;
    ASSERT_NEAR(y[i], gelu(x[i]), 2e-7 * std::abs(x[i]) + rounding<T>(gelu(x[i]))) << x[i];
    const double slope = -3 * gelu_derivative(x[i]);
    ASSERT_NEAR(d[i], slope, 3 * 6e-7 + rounding<T>(slope)) << x[i];
  }
}

TYPED_TEST(GeluKernels, FollowStridedRows) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    SCOPED_TRACE(extent);
    const auto x = random_elements<T>({extent.rows, extent.columns, 2 * extent.padding}, 1, 2);
    const auto dy = random_elements<T>(extent, 2);
    const auto y = in_every_order([&](const Emulated::Stream& s) {
      Elements<T> result(extent);
      ops::gelu(s, x.matrix(), result.matrix());
      return result;
    });
    const auto d = in_every_order([&](const Emulated::Stream& s) {
      auto result = dy;
      ops::gelu_backward(s, x.matrix(), result.matrix());
      return result;
    });
    expect_near(y, [&](Index row, Index column) {
      const double at = x(row, column);
      return Near{gelu(at), 2e-7 * std::abs(at)};
    });
    expect_near(d, [&](Index row, Index column) {
      const double slope = gelu_derivative(x(row, column));
      return Near{dy(row, column) * slope, 6e-7 * std::abs(dy(row, column))};
    });
    EXPECT_TRUE(y.padding_untouched() && d.padding_untouched());
  }
}

TYPED_TEST(GeluKernels, AddBiasGeluIsAddBiasAndGelu) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    SCOPED_TRACE(extent);
    const auto x = random_elements<T>(extent, 1, 2);
    const auto bias = random_elements<T>(extent.columns, 2);
    const Emulated::Stream s(simt::Emulation{.seed = 3});
    auto biased = x;
    Elements<T> y({extent.rows, extent.columns, 8});
    ops::add_bias_gelu(s, bias.vector(), biased.matrix(), y.matrix());
    auto expected = x;
    ops::add_bias(s, bias.vector(), expected.matrix());
    EXPECT_TRUE(biased == expected);
    Elements<T> expected_y({extent.rows, extent.columns, 8});
    ops::gelu(s, expected.matrix(), expected_y.matrix());
    EXPECT_TRUE(y == expected_y);
    ops::gelu(s, biased.matrix(), biased.matrix());
    for (Index row = 0; row < extent.rows; ++row) {
      for (Index column = 0; column < extent.columns; ++column) {
        ASSERT_EQ(std::as_const(biased)(row, column), std::as_const(y)(row, column));
      }
    }
  }
}

TYPED_TEST(GeluKernels, NanStaysNan) {
  using T = TypeParam;
  Elements<T> x(Index{9});  // poisoned
  Elements<T> d(Index{9});
  const Emulated::Stream s;
  ops::fill(s, d.vector(), 1.0f);
  ops::gelu_backward(s, x.matrix(), d.matrix());
  ops::gelu(s, x.matrix(), x.matrix());
  for (Index i = 0; i < 9; ++i) {
    EXPECT_TRUE(std::isnan(std::as_const(x)[i]) && std::isnan(std::as_const(d)[i]));
  }
}

TYPED_TEST(GeluKernels, MoveWholeSectors) {
  using T = TypeParam;
  const Emulated::Stream s;
  auto x = random_elements<T>({5, 1024}, 1);
  auto y = x;
  const auto bias = random_elements<T>(1024, 2);
  ops::gelu(s, x.matrix(), y.matrix());
  ops::add_bias_gelu(s, bias.vector(), x.matrix(), y.matrix());
  ops::gelu_backward(s, x.matrix(), y.matrix());
  expect_coalesced(s);
}

}  // namespace
}  // namespace trilith::test
