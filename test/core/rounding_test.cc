#include <cstddef>

#include <gtest/gtest.h>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith {
namespace {

TEST(Rounding, GoesUpToTheNextMultipleAndNoFurther) {
  for (Index by = 1; by < 9; ++by) {
    EXPECT_EQ(round_up(Index{0}, by), 0);
    for (Index x = 1; x < 40; ++x) {
      const Index rounded = round_up(x, by);
      EXPECT_EQ(rounded % by, 0);
      EXPECT_GE(rounded, x);
      EXPECT_LT(rounded - by, x);
      EXPECT_EQ(ceil_divide(x, by), rounded / by);
    }
  }
  static_assert(round_up(50257, 8) == 50264);
  static_assert(round_up(std::size_t{1}, 4096) == 4096);
}

}  // namespace
}  // namespace trilith
