#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <trilith/ops/host/reduce.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::random_tensor;
using test::Tensor;

double sum_of_squares(int threads, const Tensor& x) {
  double sum = std::numeric_limits<double>::quiet_NaN();
  ops::sum_of_squares(Host::Stream(threads), x.vector(), Vector<double>(&sum, {1}));
  return sum;
}

TEST(SumOfSquares, IsExactToFloat64) {
  for (const Index size : {0, 1, 7, 31, 32, 33, 16384, 16385, 100000}) {
    const Tensor x = random_tensor(size, 1);
    double expected = 0;
    for (Index i = 0; i < size; ++i) expected += double{x[i]} * double{x[i]};
    // Squares of floats are exact in float64, and their sum is rounded a hundred thousand times.
    EXPECT_NEAR(sum_of_squares(3, x), expected, 1e-12 * expected) << size;
  }
}

TEST(SumOfSquares, IsFiniteExactlyWhereEveryElementIs) {
  Tensor x = random_tensor(40000, 2);
  x[123] = std::numeric_limits<float>::max();
  x[39999] = -std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isfinite(sum_of_squares(2, x)));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const Index at : {0, 20000, 39999}) {
      Tensor y = x;
      y[at] = bad;
      EXPECT_FALSE(std::isfinite(sum_of_squares(2, y)));
    }
  }
}

TEST(SumOfSquares, SameBitsForAnyNumberOfThreads) {
  for (const Index size : {16384, 100001, 1000000}) {
    const Tensor x = random_tensor(size, 3);
    const double expected = sum_of_squares(1, x);
    for (const int threads : {1, 2, 3, 5}) {
      EXPECT_EQ(sum_of_squares(threads, x), expected);
    }
  }
}

}  // namespace
}  // namespace trilith
