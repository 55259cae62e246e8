#include <cmath>

#include <gtest/gtest.h>

#include <trilith/ops/host/tile_gemm.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

namespace tile = ops::tile;
using test::random_tensor;
using test::Tensor;

TEST(Transpose, SwapsRowAndLane) {
  ops::simd::Floats block[ops::simd::lanes];
  for (Index row = 0; row < ops::simd::lanes; ++row) {
    for (Index lane = 0; lane < ops::simd::lanes; ++lane) {
      block[row][lane] = static_cast<float>(16 * row + lane);
    }
  }
  ops::simd::transpose(block);
  for (Index row = 0; row < ops::simd::lanes; ++row) {
    for (Index lane = 0; lane < ops::simd::lanes; ++lane) {
      EXPECT_EQ(block[row][lane], static_cast<float>(16 * lane + row));
    }
  }
}

TEST(PackTransposed, LaysOutPanelsAndFillsUpTheLastWithZeros) {
  for (const Index rows : {1, 15, 16, 33, 64}) {
    for (const Index columns : {1, 8, 16, 19}) {
      const Tensor from = random_tensor({rows, columns, 3}, 1);
      const Index filled = round_up(rows, tile::panel);
      Tensor to({filled, columns});
      tile::pack_transposed(from.matrix(), 2, &to(0, 0));
      for (Index row = 0; row < filled; ++row) {
        for (Index c = 0; c < columns; ++c) {
          const Index at = (row / tile::panel * columns + c) * tile::panel + row % tile::panel;
          EXPECT_EQ(to[at], row < rows ? 2 * from(row, c) : 0) << row << ", " << c;
        }
      }
    }
  }
}

TEST(PackRows, FillsUpWithZerosAndUnpacksToWhatWas) {
  for (const Index columns : {1, 16, 19, 64}) {
    const Tensor from = random_tensor({5, columns, 3}, 1);
    const Index width = round_up(columns, ops::simd::lanes);
    Tensor rows({5, width});
    tile::pack_rows(from.matrix(), 1, &rows(0, 0), width);
    for (Index row = 0; row < 5; ++row) {
      for (Index c = columns; c < width; ++c) EXPECT_EQ(rows(row, c), 0);
    }
    Tensor to({5, columns, 3});
    tile::unpack_rows(&rows(0, 0), width, to.matrix());
    EXPECT_TRUE(to == from);
  }
}

// A chain of n multiply-adds in float32 is wrong by at most n · 2^-24 of the sum of its terms' sizes.
template <tile::Contiguous Order, Accumulate Sum>
void expect_product(Index rows, Index columns, Index inner) {
  const Index filled = round_up(rows, tile::row_block);
  const bool by_row = Order == tile::Contiguous::row;
  const Tensor a = random_tensor(by_row ? test::Extent{inner, filled} : test::Extent{filled, inner}, 1);
  const Tensor b = random_tensor({inner, columns, 16}, 2);
  const Tensor before = random_tensor({filled, columns, 16}, 3);
  Tensor c = before;
  tile::multiply<Sum>(rows, columns, inner, tile::Left<Order>{a.matrix().data(), a.stride()},
                      b.matrix().data(), b.stride(), c.matrix().data(), c.stride());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      double sum = Sum == Accumulate::yes ? double{before(i, j)} : 0;
      double size = std::abs(sum);
      for (Index k = 0; k < inner; ++k) {
        const double term = double{by_row ? a(k, i) : a(i, k)} * double{b(k, j)};
        sum += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(c(i, j), sum, static_cast<double>(inner + 1) * 0x1p-24 * size) << i << ", " << j;
    }
  }
  EXPECT_TRUE(c.padding_untouched());
}

TEST(Multiply, IsTheProductInBothOrdersOverwritingOrAdding) {
  for (const Index rows : {1, 8, 21}) {
    for (const Index columns : {16, 32, 80}) {
      for (const Index inner : {1, 30}) {
        expect_product<tile::Contiguous::row, Accumulate::no>(rows, columns, inner);
        expect_product<tile::Contiguous::row, Accumulate::yes>(rows, columns, inner);
        expect_product<tile::Contiguous::inner, Accumulate::no>(rows, columns, inner);
        expect_product<tile::Contiguous::inner, Accumulate::yes>(rows, columns, inner);
      }
    }
  }
}

}  // namespace
}  // namespace trilith
