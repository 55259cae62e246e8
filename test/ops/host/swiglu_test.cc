#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/swiglu.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Tensor;

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double silu_derivative(double x) {
  const double sigma = 1 / (1 + std::exp(-x));
  return sigma + x * sigma / (1 + std::exp(x));
}

// [−100, 100] in steps of 1e-3, and numbers from 1e-30 to 1e30 of both signs.
Tensor sweep() {
  constexpr Index steps = 200001;
  constexpr Index powers = 601;
  Tensor x(steps + 2 * powers);
  for (Index i = 0; i < steps; ++i) x[i] = static_cast<float>(-100 + 1e-3 * static_cast<double>(i));
  for (Index i = 0; i < powers; ++i) {
    x[steps + 2 * i] = static_cast<float>(std::pow(10, -30 + 0.1 * static_cast<double>(i)));
    x[steps + 2 * i + 1] = -x[steps + 2 * i];
  }
  return x;
}

Tensor constant(Extent extent, float value) {
  Tensor tensor(extent);
  for (Index r = 0; r < extent.rows; ++r) {
    for (Index c = 0; c < extent.columns; ++c) tensor(r, c) = value;
  }
  return tensor;
}

struct Gradients {
  Tensor gate;
  Tensor up;

  Gradients(const Host::Stream& stream, const Tensor& gate_values, const Tensor& up_values, const Tensor& dy)
      : gate({dy.rows(), dy.columns(), 1}), up({dy.rows(), dy.columns(), 6}) {
    ops::swiglu_backward(stream, gate_values.matrix(), up_values.matrix(), dy.matrix(), gate.matrix(),
                         up.matrix());
  }
};

TEST(Silu, DerivativeOfTheReferenceAgreesWithFiniteDifferences) {
  constexpr double step = 1e-5;  // truncation and cancellation both below 1e-9
  for (double x = -30; x < 30; x += 0.01) {
    ASSERT_NEAR((silu(x + step) - silu(x - step)) / (2 * step), silu_derivative(x), 1e-9) << x;
  }
}

TEST(Swiglu, OfEveryGateIsWithinFiveTenMillionths) {
  const Tensor gate = sweep();
  const Tensor up = constant({1, gate.columns()}, -3.7f);
  Tensor y(gate.columns());
  ops::swiglu(Host::Stream(2), gate.matrix(), up.matrix(), y.matrix());
  for (Index i = 0; i < gate.columns(); ++i) {
    const double expected = silu(double{gate[i]}) * double{-3.7f};
    // Below −86 silu is nothing but less than 4e-36.
    ASSERT_LE(std::abs(double{y[i]} - expected), 5e-7 * std::abs(expected) + 2e-35 * (gate[i] < -86))
        << gate[i];
  }
}

TEST(SwigluBackward, OfEveryGateIsWithinFourTenMillionths) {
  const Tensor gate = sweep();
  const Tensor one = constant({1, gate.columns()}, 1);
  const Gradients actual(Host::Stream(2), gate, one, one);
  for (Index i = 0; i < gate.columns(); ++i) {
    const double at = double{gate[i]};
    ASSERT_LE(std::abs(double{actual.gate[i]} - silu_derivative(at)), 4e-7) << at;
    ASSERT_LE(std::abs(double{actual.up[i]} - silu(at)), 5e-7 * std::abs(silu(at)) + 5e-36 * (at < -86))
        << at;
  }
}

TEST(Swiglu, MultipliesByUp) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor gate = random_tensor({extent.rows, extent.columns, 2}, 1, 3.0f);
    const Tensor up = random_tensor(extent, 2);
    Tensor y({extent.rows, extent.columns, 3});
    ops::swiglu(Host::Stream(3), gate.matrix(), up.matrix(), y.matrix());
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) {
        const double expected = silu(double{gate(r, c)}) * double{up(r, c)};
        ASSERT_NEAR(double{y(r, c)}, expected, 5e-7 * std::abs(expected));
      }
    }
    EXPECT_TRUE(y.padding_untouched());
  }
}

TEST(SwigluBackward, MultipliesTheGradientOfTheOutput) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor gate = random_tensor({extent.rows, extent.columns, 2}, 1, 3.0f);
    const Tensor up = random_tensor(extent, 2);
    const Tensor dy = random_tensor({extent.rows, extent.columns, 4}, 3);
    const Gradients actual(Host::Stream(3), gate, up, dy);
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) {
        const double d = double{dy(r, c)};
        const double scale = d * double{up(r, c)};
        // The derivative's bound, scaled, and two roundings.
        ASSERT_NEAR(double{actual.gate(r, c)}, scale * silu_derivative(double{gate(r, c)}),
                    5.5e-7 * std::abs(scale));
        const double d_up = d * silu(double{gate(r, c)});
        ASSERT_NEAR(double{actual.up(r, c)}, d_up, 5e-7 * std::abs(d_up));
      }
    }
    EXPECT_TRUE(actual.gate.padding_untouched());
    EXPECT_TRUE(actual.up.padding_untouched());
  }
}

TEST(Swiglu, MayOverwriteItsInputs) {
  const Extent extent{33, 17, 15};
  const Host::Stream stream;
  const Tensor gate = random_tensor(extent, 1);
  const Tensor up = random_tensor(extent, 2);
  const Tensor dy = random_tensor(extent, 3);
  Tensor y(extent);
  ops::swiglu(stream, gate.matrix(), up.matrix(), y.matrix());
  Tensor a = gate;
  ops::swiglu(stream, a.matrix(), up.matrix(), a.matrix());
  EXPECT_TRUE(a == y);
  Tensor b = up;
  ops::swiglu(stream, gate.matrix(), b.matrix(), b.matrix());
  EXPECT_TRUE(b == y);

  Tensor d_gate(extent);
  Tensor d_up(extent);
  ops::swiglu_backward(stream, gate.matrix(), up.matrix(), dy.matrix(), d_gate.matrix(), d_up.matrix());
  a = gate;
  b = up;
  ops::swiglu_backward(stream, a.matrix(), b.matrix(), dy.matrix(), a.matrix(), b.matrix());
  EXPECT_TRUE(a == d_gate);
  EXPECT_TRUE(b == d_up);
  a = gate;
  b = dy;
  ops::swiglu_backward(stream, a.matrix(), up.matrix(), b.matrix(), b.matrix(), a.matrix());
  EXPECT_TRUE(b == d_gate);
  EXPECT_TRUE(a == d_up);
}

TEST(Swiglu, OfZeroIsZeroOfInfinityItsLimitAndNanStaysNan) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Tensor gate(Index{5});
  gate[0] = 0;
  gate[1] = infinity;
  gate[2] = -infinity;
  gate[3] = std::numeric_limits<float>::quiet_NaN();
  gate[4] = std::bit_cast<float>(0xFFFFFFFFu);  // the NaN of poisoned memory
  const Tensor one = constant({1, 5}, 1);
  Tensor y(Index{5});
  ops::swiglu(Host::Stream(), gate.matrix(), one.matrix(), y.matrix());
  const Gradients d(Host::Stream(), gate, one, one);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(d.gate[0], 0.5f);
  EXPECT_EQ(y[1], infinity);
  EXPECT_EQ(d.gate[1], 1.0f);
  EXPECT_LT(std::abs(y[2]), 1e-35f);
  EXPECT_LT(std::abs(d.gate[2]), 1e-35f);
  for (Index i : {3, 4}) {
    EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_TRUE(std::isnan(d.gate[i]));
    EXPECT_TRUE(std::isnan(d.up[i]));
  }

  // A NaN of up or of dy reaches what it is a factor of, whatever the gate.
  const Tensor nan = constant({1, 3}, std::nanf(""));
  const Tensor low = constant({1, 3}, -1000);
  Tensor product(Index{3});
  ops::swiglu(Host::Stream(), low.matrix(), nan.matrix(), product.matrix());
  EXPECT_TRUE(std::isnan(product[0]));
  const Gradients of_dy(Host::Stream(), low, low, nan);
  EXPECT_TRUE(std::isnan(of_dy.gate[0]));
  EXPECT_TRUE(std::isnan(of_dy.up[0]));
}

TEST(Swiglu, SameBitsForAnyNumberOfThreads) {
  for (const Extent extent : {Extent{600, 257, 3}, Extent{97, 3072}}) {
    const Tensor gate = random_tensor(extent, 1);
    const Tensor up = random_tensor(extent, 2);
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      Tensor y(extent);
      ops::swiglu(stream, gate.matrix(), up.matrix(), y.matrix());
      const Gradients d(stream, gate, up, y);
      return std::vector<Tensor>{y, d.gate, d.up};
    });
  }
}

}  // namespace
}  // namespace trilith
