#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/rotary.hpp>

#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class RotaryKernels : public testing::Test {};
TYPED_TEST_SUITE(RotaryKernels, ElementTypes);

constexpr float theta = 10000;

double angle(std::int32_t position, Index i, Index half) {
  return std::max(position, 0) * std::pow(double{theta}, -static_cast<double>(i) / static_cast<double>(half));
}

Elements<float> table_of(const Emulated::Stream& s, const std::vector<std::int32_t>& positions,
                         Index dimension) {
  const auto rows = static_cast<Index>(positions.size());
  Elements<float> table(Extent{rows, dimension});
  ops::rotary_table(s, {positions.data(), {rows}}, theta, table.matrix());
  return table;
}

TEST(RotaryTableKernel, IsWithinItsBoundOfFloat64) {
  std::vector<std::int32_t> positions = {-1, 0, 1, 2, 3, 1000, 131071, 1 << 20};
  for (std::int32_t i = 1; i < 40; ++i) positions.push_back(26027 * i);
  for (const Index dimension : {2, 6, 64, 128}) {
    const auto table =
        in_every_order([&](const Emulated::Stream& s) { return table_of(s, positions, dimension); });
    const Index half = dimension / 2;
    for (Index row = 0; row < table.rows(); ++row) {
      for (Index i = 0; i < half; ++i) {
        const double at = angle(positions[static_cast<std::size_t>(row)], i, half);
        ASSERT_NEAR(table(row, i), std::cos(at), 3.1e-8) << at;
        ASSERT_NEAR(table(row, half + i), std::sin(at), 3.1e-8) << at;
      }
    }
  }
}

struct Shape {
  Index batch;
  Index heads;
  Index dimension;
  Index padding;
};

// Queries and keys of fused rows, which have values behind them.
template <class T>
View<T, 4> rotated_heads(Elements<T>& qkv, const Shape& shape) {
  const Index rows = qkv.rows() / shape.batch;
  return {&qkv(0, 0),
          {shape.batch, rows, shape.heads, shape.dimension},
          {rows * qkv.stride(), qkv.stride(), shape.dimension, 1}};
}

TYPED_TEST(RotaryKernels, RotateEveryHeadByItsPosition) {
  using T = TypeParam;
  const std::vector<std::int32_t> positions = {0, 7, 3, -1, 100};
  for (const Shape& shape : {Shape{2, 3, 64, 0}, Shape{1, 2, 128, 8}, Shape{3, 1, 6, 1}, Shape{2, 2, 8, 4},
                             Shape{1, 5, 2, 0}, Shape{2, 2, 12, 4}}) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.dimension << " + "
                                    << shape.padding);
    const Index half = shape.dimension / 2;
    const auto qkv =
        random_elements<T>({shape.batch * 5, (shape.heads + 1) * shape.dimension, shape.padding}, 1);
    const auto table = table_of(Emulated::Stream(), positions, shape.dimension);
    for (const bool back : {false, true}) {
      const auto y = in_every_order([&](const Emulated::Stream& s) {
        auto x = qkv;
        if (back) {
          ops::rotary_backward(s, table.matrix(), rotated_heads(x, shape));
        } else {
          ops::rotary(s, table.matrix(), rotated_heads(x, shape));
        }
        return x;
      });
      expect_near(y, [&](Index row, Index column) {
        if (column >= shape.heads * shape.dimension) return Near{qkv(row, column), 0};
        const Index i = column % shape.dimension % half;
        const double at = angle(positions[static_cast<std::size_t>(row % 5)], i, half) * (back ? -1 : 1);
        const Index first = column / shape.dimension * shape.dimension + i;
        const double a = qkv(row, first);
        const double b = qkv(row, first + half);
        const double rotated =
            column == first ? a * std::cos(at) - b * std::sin(at) : b * std::cos(at) + a * std::sin(at);
        // The table's error, two products and their sum.
        return Near{rotated, 3 * 0x1p-24 * (std::abs(a) + std::abs(b))};
      });
      EXPECT_TRUE(y.padding_untouched());
    }
  }
}

TYPED_TEST(RotaryKernels, MoveWholeSectors) {
  using T = TypeParam;
  const Emulated::Stream s;
  auto x = random_elements<T>({4, 5 * 64}, 1);
  Elements<float> table(Extent{2, 64});
  ops::rotary(s, table.matrix(), rotated_heads(x, {2, 4, 64, 0}));
  EXPECT_EQ(s.counters().global_stores.bytes, 4 * 4 * 64 * static_cast<Index>(sizeof(T)));
  EXPECT_EQ(s.counters().global_stores.sectors * 32, s.counters().global_stores.bytes);
}

}  // namespace
}  // namespace trilith::test
