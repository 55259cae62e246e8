#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/elementwise.hpp>

#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class Elementwise : public testing::Test {};
TYPED_TEST_SUITE(Elementwise, ElementTypes);

TYPED_TEST(Elementwise, AddBiasAddsItToEveryRow) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    SCOPED_TRACE(extent);
    const auto x = random_elements<T>(extent, 1);
    const auto bias = random_elements<T>(extent.columns, 2);
    const auto y = in_every_order([&](const Emulated::Stream& s) {
      auto sum = x;
      ops::add_bias(s, bias.vector(), sum.matrix());
      return sum;
    });
    expect_near(y, [&](Index row, Index column) { return Near{x(row, column) + bias[column], 0}; });
    EXPECT_TRUE(y.padding_untouched());
  }
}

TYPED_TEST(Elementwise, AddBiasResidualAddsBothAndRoundsOnce) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    SCOPED_TRACE(extent);
    const auto x = random_elements<T>(extent, 1);
    const auto bias = random_elements<T>(extent.columns, 2);
    const auto residual = random_elements<T>({extent.rows, extent.columns, 2 * extent.padding}, 3);
    const auto y = in_every_order([&](const Emulated::Stream& s) {
      auto sum = x;
      ops::add_bias_residual(s, bias.vector(), residual.matrix(), sum.matrix());
      return sum;
    });
    expect_near(y, [&](Index row, Index column) {
      const double biased = x(row, column) + bias[column];
      return Near{biased + residual(row, column), rounding<float>(biased)};
    });
    EXPECT_TRUE(y.padding_untouched());
  }
}

// Each thread adds up to rows / 8 terms in float32, then come up to 3 levels of a tree and 8 warps; where the
// rows are cut into parts, of which 600 rows make 2 to 18, once more with the parts.
TYPED_TEST(Elementwise, BiasGradientSumsTheRows) {
  using T = TypeParam;
  for (const Extent& extent : kernel_extents) {
    for (const Index rows : {extent.rows, Index{300}, Index{600}}) {
      if (rows * extent.columns > 40000) continue;
      SCOPED_TRACE(testing::Message() << rows << " rows of " << extent);
      const auto dy = random_elements<T>({rows, extent.columns, extent.padding}, 1, 1, 0.5f);
      const auto before = random_elements<float>(extent.columns, 2);
      const auto sum = in_every_order([&](const Emulated::Stream& s) {
        Elements<float> db(extent.columns);
        ops::bias_gradient(s, dy.matrix(), db.vector(), Accumulate::no);
        return db;
      });
      const auto total = in_every_order([&](const Emulated::Stream& s) {
        auto db = before;
        ops::bias_gradient(s, dy.matrix(), db.vector(), Accumulate::yes);
        return db;
      });
      const auto expected = [&](Index, Index column) {
        Near near{0, 0};
        for (Index row = 0; row < rows; ++row) {
          near.value += dy(row, column);
          near.tolerance += 0x1p-24 * std::abs(dy(row, column)) * (static_cast<double>(rows) / 8 + 30);
        }
        return near;
      };
      expect_near(sum, expected);
      expect_near(total, [&](Index row, Index column) {
        const Near near = expected(row, column);
        return Near{near.value + before[column], near.tolerance};
      });
    }
  }
}

TYPED_TEST(Elementwise, OfVectorsOfAnyLengthAndPlace) {
  using T = TypeParam;
  for (const Index size : {1, 7, 8, 33, 100, 5000}) {
    for (const Index shift : {0, 1, 4}) {
      SCOPED_TRACE(testing::Message() << size << " elements, shifted by " << shift);
      const auto x = random_elements<T>(size, 1, 1, 0, shift);
      const auto y = random_elements<T>(size, 2);
      const auto sum = in_every_order([&](const Emulated::Stream& s) {
        auto to = y;
        ops::add(s, x.vector(), to.vector());
        return to;
      });
      expect_near(sum, [&](Index, Index i) { return Near{x[i] + y[i], 0}; });
      const auto scaled = in_every_order([&](const Emulated::Stream& s) {
        auto to = x;
        ops::scale(s, 0.3f, to.vector());
        return to;
      });
      expect_near(scaled, [&](Index, Index i) { return Near{double{0.3f} * x[i], 0}; });
      const auto filled = in_every_order([&](const Emulated::Stream& s) {
        Elements<T> to(size, shift);
        ops::fill(s, to.vector(), -1.7f);
        return to;
      });
      expect_near(filled, [&](Index, Index) { return Near{double{-1.7f}, 0}; });
    }
  }
}

// Every bit pattern of 16 bits, NaN among them.
TYPED_TEST(Elementwise, CopyOfOneTypeKeepsTheBits) {
  using T = TypeParam;
  Elements<T> from(Index{65536});
  for (Index i = 0; i < from.columns(); ++i) {
    const auto bits = static_cast<std::uint32_t>(i) << (sizeof(T) == 4 ? 16 : 0);
    std::memcpy(static_cast<void*>(&from[i]), &bits, sizeof(T));
  }
  const auto to = in_every_order([&](const Emulated::Stream& s) {
    Elements<T> copied(from.columns());
    ops::copy(s, from.vector(), copied.vector());
    return copied;
  });
  EXPECT_TRUE(to == from);
}

TYPED_TEST(Elementwise, CopyConvertsToAndFromFloat) {
  using T = TypeParam;
  const auto from = random_elements<float>(777, 1);
  Elements<T> narrow(Index{777});
  Elements<float> wide(Index{777});
  const Emulated::Stream s;
  ops::copy(s, from.vector(), narrow.vector());
  ops::copy(s, narrow.vector(), wide.vector());
  expect_near(narrow, [&](Index, Index i) { return Near{from[i], 0}; });
  for (Index i = 0; i < 777; ++i) ASSERT_EQ(std::as_const(wide)[i], std::as_const(narrow)[i]);
}

// (batch, rows, heads, dimension) out of fused rows.
template <class T>
View<T, 4> heads(Matrix<T> x, Index batch, Index dimension) {
  const Index rows = x.extent(0) / batch;
  return {x.data(),
          {batch, rows, x.extent(1) / dimension, dimension},
          {rows * x.stride(0), x.stride(0), dimension, 1}};
}

TYPED_TEST(Elementwise, CopyOfHeadsIsStrided) {
  using T = TypeParam;
  for (const Index dimension : {8, 3, 64}) {
    for (const Index padding : {0, 5, 16}) {
      SCOPED_TRACE(testing::Message() << "dimension " << dimension << ", padding " << padding);
      const auto from = random_elements<T>({6, 5 * dimension, padding}, 1);
      const auto to = in_every_order([&](const Emulated::Stream& s) {
        Elements<float> copied({6, 2 * dimension, 2 * padding});
        ops::copy(s, heads(from.matrix(), 2, dimension).slice(2, 1, 2), heads(copied.matrix(), 2, dimension));
        return copied;
      });
      expect_near(to, [&](Index row, Index column) { return Near{from(row, dimension + column), 0}; });
      EXPECT_TRUE(to.padding_untouched());
    }
  }
}

TYPED_TEST(Elementwise, NothingIsLaunchedForNothing) {
  using T = TypeParam;
  const Emulated::Stream s;
  Elements<T> none(Extent{0, 5});
  Elements<T> bias(Index{5});
  ops::add_bias(s, bias.vector(), none.matrix());
  ops::fill(s, none.vector(), 1.0f);
  ops::copy(s, none.vector(), none.vector());
  ops::copy(s, heads(none.matrix(), 1, 1), heads(none.matrix(), 1, 1));
  expect_no_launch(s);
}

TYPED_TEST(Elementwise, MovesWholeSectors) {
  using T = TypeParam;
  const Emulated::Stream s;
  const auto from = random_elements<T>({6, 768}, 1);
  const auto bias = random_elements<T>(768, 2);
  auto to = from;
  ops::add_bias(s, bias.vector(), to.matrix());
  ops::add_bias_residual(s, bias.vector(), from.matrix(), to.matrix());
  ops::add(s, from.vector(), to.vector());
  ops::scale(s, 2.0f, to.vector());
  ops::fill(s, to.vector(), 2.0f);
  ops::copy(s, from.vector(), to.vector());
  ops::copy(s, heads(from.matrix(), 2, 64), heads(to.matrix(), 2, 64));
  Elements<float> db(Index{768});
  ops::bias_gradient(s, from.matrix(), db.vector(), Accumulate::yes);
  expect_coalesced(s);
}

}  // namespace
}  // namespace trilith::test
