// A real kernel on the emulator: right in every order, without a race or a bank conflict, and with no access
// to spare.

#include "test/simt/tile_product.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

template <half T>
Buffer<T> random_matrix(Index size, std::uint64_t stream) {
  const Philox random(11, stream);
  Buffer<T> values(size);
  for (Index i = 0; i < size; ++i) values[i] = T(random.normal(i));
  return values;
}

template <half T>
class TileProductTest : public testing::Test {
 protected:
  void make(int rows, int columns, int inner) {
    rows_ = rows;
    columns_ = columns;
    inner_ = inner;
    a_ = random_matrix<T>(rows * inner, 0);
    b_ = random_matrix<T>(inner * columns, 1);
  }

  simt::Counters run(simt::Emulation emulation) {
    c_ = Buffer<float>(Index{rows_} * columns_, NAN);
    simt::Emulator emulator(emulation);
    return emulator.launch(TileProduct<T>{}, {.x = columns_ / 64, .y = rows_ / 64},
                           {a_.view(), b_.view(), c_.view(), columns_, inner_});
  }

  void expect_product() {
    for (int row = 0; row < rows_; ++row) {
      for (int column = 0; column < columns_; ++column) {
        double sum = 0;
        double size = 0;
        for (int k = 0; k < inner_; ++k) {
          const double term = static_cast<double>(static_cast<float>(a_[row * inner_ + k])) *
                              static_cast<double>(static_cast<float>(b_[k * columns_ + column]));
          sum += term;
          size += std::abs(term);
        }
        // As many float32 additions as terms.
        ASSERT_NEAR(c_[row * columns_ + column], sum, inner_ * 0x1p-24 * size) << row << ", " << column;
      }
    }
  }

  int rows_ = 0;
  int columns_ = 0;
  int inner_ = 0;
  Buffer<T> a_;
  Buffer<T> b_;
  Buffer<float> c_;
};

using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(TileProductTest, Halves);

TYPED_TEST(TileProductTest, IsRightInEveryOrderAndLanding) {
  this->make(64, 64, 64);
  std::vector<float> first;
  for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    for (const auto landing : {simt::Landing::at_once, simt::Landing::late}) {
      this->run({.seed = seed, .landing = landing});
      this->expect_product();
      const std::vector<float> c(this->c_.data(), this->c_.data() + this->c_.size());
      if (first.empty()) first = c;
      EXPECT_EQ(c, first) << "seed " << seed;
    }
  }
}

TYPED_TEST(TileProductTest, SeveralBlocksWriteEachElement) {
  this->make(128, 192, 96);
  this->run({.seed = 9, .landing = simt::Landing::late});
  this->expect_product();
}

TYPED_TEST(TileProductTest, DoesNotOneAccessTooMany) {
  this->make(128, 64, 128);
  const simt::Counters counters = this->run({.seed = 3});
  const Index blocks = 2;
  const Index steps = 128 / 16;
  EXPECT_EQ(counters.mma, blocks * 4 * steps * 2 * 4);
  EXPECT_EQ(counters.ldmatrix, blocks * 4 * steps * (2 + 2));
  EXPECT_EQ(counters.bank_conflicts(), 0);
  EXPECT_EQ(counters.global_loads.bytes, blocks * 2 * 64 * 128 * 2);
  EXPECT_EQ(counters.global_loads.sectors * 32, counters.global_loads.bytes);
  EXPECT_EQ(counters.global_stores.bytes, blocks * 64 * 64 * 4);
  EXPECT_EQ(counters.global_stores.sectors * 32, counters.global_stores.bytes);
}

}  // namespace
}  // namespace trilith::test
