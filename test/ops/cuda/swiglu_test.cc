#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/swiglu.hpp>

#include "test/support/activations_reference.hpp"
#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class SwigluKernels : public testing::Test {};
TYPED_TEST_SUITE(SwigluKernels, ElementTypes);

// Gates and what they let through are the halves of one row.
template <class X>
auto half_of(X& x, int which) {
  return x.matrix().slice(1, which * x.columns() / 2, x.columns() / 2);
}

double relative_bound(double gate) {
  return 8e-7 + 6e-8 * std::fmax(-gate, 0);
}

TYPED_TEST(SwigluKernels, OfEveryGateIsWithinItsBound) {
  using T = TypeParam;
  Elements<T> gate(Index{4001});
  Elements<T> one(Index{4001});
  for (Index i = 0; i < 4001; ++i) {
    gate[i] = T(static_cast<float>(-100 + 0.05 * static_cast<double>(i)));
    one[i] = T(1.0f);
  }
  const Emulated::Stream s;
  Elements<T> y(Index{4001});
  Elements<T> d_gate(Index{4001});
  Elements<T> d_up(Index{4001});
  ops::swiglu(s, gate.matrix(), one.matrix(), y.matrix());
  ops::swiglu_backward(s, gate.matrix(), one.matrix(), one.matrix(), d_gate.matrix(), d_up.matrix());
  EXPECT_TRUE(y == d_up);
  const auto at = [&](Index i) { return std::as_const(gate)[i]; };
  expect_near(y, [&](Index, Index i) {
    const double expected = silu(at(i));
    return Near{expected, relative_bound(at(i)) * std::abs(expected) + 5e-36 * (at(i) < -86)};
  });
  expect_near(d_gate, [&](Index, Index i) { return Near{silu_derivative(at(i)), 6e-7}; });
}

TYPED_TEST(SwigluKernels, OfHalvesOfRows) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    SCOPED_TRACE(extent);
    const auto gate_up = random_elements<T>({extent.rows, 2 * extent.columns, extent.padding}, 1, 3);
    const auto dy = random_elements<T>(extent, 2);
    const auto y = in_every_order([&](const Emulated::Stream& s) {
      Elements<T> result(extent);
      ops::swiglu(s, half_of(gate_up, 0), half_of(gate_up, 1), result.matrix());
      return result;
    });
    const auto d = in_every_order([&](const Emulated::Stream& s) {
      Elements<T> result({extent.rows, 2 * extent.columns, extent.padding});
      ops::swiglu_backward(s, half_of(gate_up, 0), half_of(gate_up, 1), dy.matrix(), half_of(result, 0),
                           half_of(result, 1));
      return result;
    });
    expect_near(y, [&](Index row, Index column) {
      const double gate = gate_up(row, column);
      const double expected = silu(gate) * gate_up(row, extent.columns + column);
      return Near{expected, relative_bound(gate) * std::abs(expected)};
    });
    expect_near(d, [&](Index row, Index column) {
      const bool of_gate = column < extent.columns;
      const Index i = of_gate ? column : column - extent.columns;
      const double gate = gate_up(row, i);
      if (of_gate) {
        const double scale = dy(row, i) * gate_up(row, extent.columns + i);
        return Near{scale * silu_derivative(gate), 7e-7 * std::abs(scale)};
      }
      const double expected = dy(row, i) * silu(gate);
      return Near{expected, relative_bound(gate) * std::abs(expected)};
    });
    EXPECT_TRUE(y.padding_untouched() && d.padding_untouched());
  }
}

TYPED_TEST(SwigluKernels, MayOverwriteTheirInputs) {
  using T = TypeParam;
  const Extent extent{3, 40};
  const auto gate = random_elements<T>(extent, 1);
  const auto up = random_elements<T>(extent, 2);
  const auto dy = random_elements<T>(extent, 3);
  const Emulated::Stream s(simt::Emulation{.seed = 5});
  Elements<T> y(extent);
  Elements<T> d_gate(extent);
  Elements<T> d_up(extent);
  ops::swiglu(s, gate.matrix(), up.matrix(), y.matrix());
  ops::swiglu_backward(s, gate.matrix(), up.matrix(), dy.matrix(), d_gate.matrix(), d_up.matrix());
  auto a = gate;
  auto b = dy;
  ops::swiglu_backward(s, a.matrix(), up.matrix(), b.matrix(), b.matrix(), a.matrix());
  EXPECT_TRUE(b == d_gate);
  EXPECT_TRUE(a == d_up);
  a = up;
  ops::swiglu(s, gate.matrix(), a.matrix(), a.matrix());
  EXPECT_TRUE(a == y);
}

TYPED_TEST(SwigluKernels, OfInfinityAreTheirLimits) {
  using T = TypeParam;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Elements<T> gate(Index{2});
  gate[0] = T(infinity);
  gate[1] = T(-infinity);
  Elements<T> one(Index{2});
  Elements<T> y(Index{2});
  Elements<T> d_gate(Index{2});
  Elements<T> d_up(Index{2});
  const Emulated::Stream s;
  ops::fill(s, one.vector(), 1.0f);
  ops::swiglu(s, gate.matrix(), one.matrix(), y.matrix());
  ops::swiglu_backward(s, gate.matrix(), one.matrix(), one.matrix(), d_gate.matrix(), d_up.matrix());
  EXPECT_EQ(std::as_const(y)[0], double{infinity});
  EXPECT_NEAR(std::as_const(y)[1], 0, 1e-35);
  expect_near(d_gate, [&](Index, Index i) { return Near{i == 0 ? 1.0 : 0.0, 1e-35}; });
}

TYPED_TEST(SwigluKernels, NanStaysNan) {
  using T = TypeParam;
  const Elements<T> nan(Index{9});
  const auto low = random_elements<T>(9, 1, 1, -200);
  Elements<T> y(Index{9});
  Elements<T> d_gate(Index{9});
  Elements<T> d_up(Index{9});
  const Emulated::Stream s;
  const auto expect_nan = [&](const Elements<T>& gate, const Elements<T>& up) {
    ops::swiglu(s, gate.matrix(), up.matrix(), y.matrix());
    ops::swiglu_backward(s, gate.matrix(), up.matrix(), low.matrix(), d_gate.matrix(), d_up.matrix());
    EXPECT_TRUE(std::isnan(std::as_const(y)[8]) && std::isnan(std::as_const(d_gate)[8]));
  };
  expect_nan(nan, low);
  expect_nan(low, nan);
}

TYPED_TEST(SwigluKernels, MoveWholeSectors) {
  using T = TypeParam;
  const Emulated::Stream s;
  const auto gate_up = random_elements<T>({5, 2048}, 1);
  const auto dy = random_elements<T>({5, 1024}, 2);
  Elements<T> y(Extent{5, 1024});
  Elements<T> d(Extent{5, 2048});
  ops::swiglu(s, half_of(gate_up, 0), half_of(gate_up, 1), y.matrix());
  ops::swiglu_backward(s, half_of(gate_up, 0), half_of(gate_up, 1), dy.matrix(), half_of(d, 0),
                       half_of(d, 1));
  expect_coalesced(s);
}

}  // namespace
}  // namespace trilith::test
