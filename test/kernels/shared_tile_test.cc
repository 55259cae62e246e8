// Tiles in shared memory: every element comes to where it belongs, zeros beyond the bounds, without a bank
// conflict, and by whole sectors of global memory.

#include <gtest/gtest.h>

#include <trilith/kernels/shared_tile.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/kernels/tile_kernels.hpp"
#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

// Distinct and exact in both 16-bit types, where a matrix has 2^14 elements at most: bits of normal numbers.
template <half T>
T element(Index i) {
  T value;
  value.bits = static_cast<std::uint16_t>(i + 0x0400);
  return value;
}

template <half T, int Rows, int Columns, Read how>
void expect_tile(int first_row, int rows, int columns) {
  SCOPED_TRACE(testing::Message() << Rows << " × " << Columns << ", read " << static_cast<int>(how));
  const Index stride = Columns + 16;
  Buffer<T> from((rows - 1) * stride + columns);
  for (Index i = 0; i < from.size(); ++i) from[i] = element<T>(i % 12000);
  for (const auto landing : {simt::Landing::at_once, simt::Landing::late}) {
    Buffer<T> to(Rows * stride);
    simt::Emulator emulator({.seed = 3, .landing = landing});
    const simt::Counters counters =
        emulator.launch(TileRead<T, Rows, Columns, how>{}, {},
                        {{from.view(), stride}, {to.view(), stride}, first_row, rows, columns});
    int wrong = 0;
    for (int row = 0; row < Rows; ++row) {
      for (int column = 0; column < Columns; ++column) {
        const bool inside = first_row + row < rows && column < columns;
        const T expected = inside ? from[(first_row + row) * stride + column] : T(0.0f);
        wrong += to[row * stride + column].bits != expected.bits;
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(counters.bank_conflicts(), 0);
    EXPECT_EQ(counters.global_loads.sectors * 32, counters.global_loads.bytes);
    if (how == Read::rows) {
      EXPECT_EQ(counters.global_stores.sectors * 32, counters.global_stores.bytes);
    }
  }
}

template <half T, int Rows, int Columns>
void expect_tile(int first_row, int rows, int columns) {
  expect_tile<T, Rows, Columns, Read::a>(first_row, rows, columns);
  expect_tile<T, Rows, Columns, Read::a_transposed>(first_row, rows, columns);
  expect_tile<T, Rows, Columns, Read::b>(first_row, rows, columns);
  expect_tile<T, Rows, Columns, Read::b_transposed>(first_row, rows, columns);
  expect_tile<T, Rows, Columns, Read::rows>(first_row, rows, columns);
}

TEST(SharedTile, GivesFragmentsOfWholeTiles) {
  expect_tile<BFloat16, 64, 64>(0, 64, 64);
  expect_tile<Float16, 128, 64>(64, 200, 64);
  expect_tile<BFloat16, 64, 128>(3, 70, 128);
  expect_tile<Float16, 32, 256>(0, 40, 256);
  expect_tile<BFloat16, 64, 256>(64, 128, 256);
}

TEST(SharedTile, IsZeroBeyondTheBounds) {
  expect_tile<BFloat16, 64, 64>(0, 50, 48);
  expect_tile<BFloat16, 64, 64>(64, 65, 16);
  expect_tile<Float16, 128, 128>(10, 100, 80);
  expect_tile<Float16, 64, 256>(0, 33, 208);
}

template <half T, int Rows, int Columns>
void expect_written(int rows, int columns) {
  const Index stride = Columns;
  Buffer<T> to(Rows * stride, T(-1.0f));
  simt::Emulator emulator({.seed = 5});
  const simt::Counters counters =
      emulator.launch(TileWrite<T, Rows, Columns>{}, {}, {{to.view(), stride}, rows, columns});
  for (int row = 0; row < Rows; ++row) {
    for (int column = 0; column < Columns; ++column) {
      const float value = static_cast<float>(row) + static_cast<float>(column) / 256;
      const T expected = row < rows && column < columns ? T(value) : T(-1.0f);
      ASSERT_EQ(to[row * stride + column].bits, expected.bits) << row << ", " << column;
    }
  }
  EXPECT_EQ(counters.bank_conflicts(), 0);
  EXPECT_EQ(counters.global_stores.sectors * 32, counters.global_stores.bytes);
  EXPECT_EQ(counters.global_stores.bytes, Index{2} * rows * columns);
}

TEST(SharedTile, TakesAccumulatorsAndGivesRows) {
  expect_written<BFloat16, 32, 64>(32, 64);
  expect_written<Float16, 16, 128>(16, 128);
  expect_written<BFloat16, 16, 256>(11, 208);
  expect_written<Float16, 64, 64>(63, 32);
}

}  // namespace
}  // namespace trilith::test
