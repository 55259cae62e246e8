#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/gelu.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Tensor;

double reference(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

// Differences of the float64 reference: its own error is about 1e-10.
double reference_derivative(double x) {
  constexpr double step = 1e-5;
  return (reference(x + step) - reference(x - step)) / (2 * step);
}

// [−20, 20] in steps of 1e-4, and numbers from 1e-30 to 1e30 of both signs.
Tensor sweep() {
  constexpr Index steps = 400001;
  constexpr Index powers = 601;
  Tensor x(steps + 2 * powers);
  for (Index i = 0; i < steps; ++i) x[i] = static_cast<float>(-20 + 1e-4 * static_cast<double>(i));
  for (Index i = 0; i < powers; ++i) {
    x[steps + 2 * i] = static_cast<float>(std::pow(10, -30 + 0.1 * static_cast<double>(i)));
    x[steps + 2 * i + 1] = -x[steps + 2 * i];
  }
  return x;
}

TEST(Gelu, IsWithinTwoTenMillionthsOfItsArgument) {
  const Tensor x = sweep();
  Tensor y(x.columns());
  ops::gelu(Host::Stream(2), x.matrix(), y.matrix());
  for (Index i = 0; i < x.columns(); ++i) {
    const double at = double{x[i]};
    ASSERT_LE(std::abs(double{y[i]} - reference(at)), 2e-7 * std::abs(at)) << at;
  }
}

TEST(Gelu, OfZeroIsZeroAndNanStaysNan) {
  Tensor x(Index{3});
  x[0] = 0;
  x[1] = std::numeric_limits<float>::quiet_NaN();
  x[2] = std::bit_cast<float>(0xFFFFFFFFu);  // the NaN of poisoned memory
  Tensor y(Index{3});
  ops::gelu(Host::Stream(), x.matrix(), y.matrix());
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));

  Tensor d(Index{3});
  for (Index i = 0; i < 3; ++i) d[i] = 1;
  ops::gelu_backward(Host::Stream(), x.matrix(), d.matrix());
  EXPECT_EQ(d[0], 0.5f);
  EXPECT_TRUE(std::isnan(d[1]));
  EXPECT_TRUE(std::isnan(d[2]));
}

TEST(GeluBackward, IsTheDerivativeWithinFourTenMillionths) {
  const Tensor x = sweep();
  Tensor d(x.columns());
  for (Index i = 0; i < x.columns(); ++i) d[i] = 1;
  ops::gelu_backward(Host::Stream(2), x.matrix(), d.matrix());
  for (Index i = 0; i < x.columns(); ++i) {
    const double at = double{x[i]};
    const double expected = std::abs(at) > 20 ? (at > 0 ? 1 : 0) : reference_derivative(at);
    ASSERT_LE(std::abs(double{d[i]} - expected), 4e-7) << x[i];
  }
}

TEST(GeluBackward, MultipliesTheGradientOfTheOutput) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor x = random_tensor({extent.rows, extent.columns, 2}, 1);
    const Tensor dy = random_tensor(extent, 2);
    Tensor d = dy;
    ops::gelu_backward(Host::Stream(3), x.matrix(), d.matrix());
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) {
        const double expected = double{dy(r, c)} * reference_derivative(double{x(r, c)});
        // The derivative's bound, scaled, and one rounding.
        ASSERT_NEAR(double{d(r, c)}, expected, 5e-7 * std::abs(double{dy(r, c)}));
      }
    }
    EXPECT_TRUE(d.padding_untouched());
  }
}

TEST(AddBiasGelu, KeepsTheBiasedInputAndEqualsGeluOfIt) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor bias = random_tensor(extent.columns, 1);
    const Tensor product = random_tensor(extent, 2, 3.0f);
    Tensor x = product;
    Tensor y({extent.rows, extent.columns, 3});
    ops::add_bias_gelu(Host::Stream(3), bias.vector(), x.matrix(), y.matrix());
    Tensor expected({extent.rows, extent.columns, 3});
    ops::gelu(Host::Stream(1), x.matrix(), expected.matrix());
    EXPECT_TRUE(y == expected);
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) ASSERT_EQ(x(r, c), product(r, c) + bias[c]);
    }
    EXPECT_TRUE(x.padding_untouched());
  }
}

TEST(Gelu, SameBitsForAnyNumberOfThreads) {
  for (const Extent extent : {Extent{600, 257, 3}, Extent{97, 3072}}) {
    const Tensor bias = random_tensor(extent.columns, 1);
    const Tensor product = random_tensor(extent, 2);
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      Tensor x = product;
      Tensor y(extent);
      ops::add_bias_gelu(stream, bias.vector(), x.matrix(), y.matrix());
      Tensor d = y;
      ops::gelu_backward(stream, x.matrix(), d.matrix());
      return std::vector<Tensor>{x, y, d};
    });
  }
}

}  // namespace
}  // namespace trilith
