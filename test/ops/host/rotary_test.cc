#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/rotary.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::heads_of;
using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

constexpr float theta = 10000;

Vector<const std::int32_t> view(const std::vector<std::int32_t>& positions) {
  return {positions.data(), {static_cast<Index>(positions.size())}};
}

// Rows of a sequence as a context rank may hold them: spread over a longer one, and one of padding.
std::vector<std::int32_t> some_positions(Index sequence) {
  std::vector<std::int32_t> positions;
  for (Index s = 0; s < sequence; ++s) {
    positions.push_back(s == 1 ? -1 : static_cast<std::int32_t>(7 * s));
  }
  return positions;
}

struct Shape {
  Index batch;
  Index sequence;
  Index heads;
  Index dimension;

  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    return out << s.batch << " × " << s.sequence << " × " << s.heads << " × " << s.dimension;
  }
};

// A half of a head less than a vector, a vector, vectors and a bit; the last has work for three threads.
constexpr Shape shapes[] = {{1, 1, 1, 2}, {3, 5, 2, 6}, {2, 4, 3, 32}, {1, 3, 2, 100}, {2, 200, 5, 64}};

struct Problem {
  Shape shape;
  std::vector<std::int32_t> positions = some_positions(shape.sequence);
  Tensor x = random_tensor({shape.batch * shape.sequence, shape.heads* shape.dimension, 5}, 1);
  Tensor dy = random_tensor({shape.batch * shape.sequence, shape.heads* shape.dimension, 3}, 2);

  Tensor table(const Host::Stream& stream) const {
    Tensor table({shape.sequence, shape.dimension, 4});
    ops::rotary_table(stream, view(positions), theta, table.matrix());
    return table;
  }
  Tensor rotated(const Host::Stream& stream) const {
    Tensor y = x;
    ops::rotary(stream, table(stream).matrix(), heads_of(y, shape.batch, shape.dimension));
    return y;
  }
  Tensor rotated_back(const Host::Stream& stream) const {
    Tensor d = dy;
    ops::rotary_backward(stream, table(stream).matrix(), heads_of(d, shape.batch, shape.dimension));
    return d;
  }
};

// By the definition: the pair (i, i + dimension / 2) as a complex number, times e^(angle · √−1).
Reference rotated(const Problem& problem, const Tensor& x, double direction) {
  const Shape& s = problem.shape;
  Reference y(x.rows(), x.columns());
  for (Index row = 0; row < x.rows(); ++row) {
    const std::int32_t position = problem.positions[static_cast<std::size_t>(row % s.sequence)];
    for (Index head = 0; head < s.heads; ++head) {
      for (Index i = 0; i < s.dimension / 2; ++i) {
        const double exponent = -2 * static_cast<double>(i) / static_cast<double>(s.dimension);
        const double angle = position < 0 ? 0 : position * std::pow(double{theta}, exponent) * direction;
        const Index a = head * s.dimension + i;
        const Index b = a + s.dimension / 2;
        y(row, a) = double{x(row, a)} * std::cos(angle) - double{x(row, b)} * std::sin(angle);
        y(row, b) = double{x(row, a)} * std::sin(angle) + double{x(row, b)} * std::cos(angle);
      }
    }
  }
  return y;
}

TEST(RotaryTable, IsExactUpToPositionTwoToTheTwentieth) {
  const std::vector<std::int32_t> positions{0, 1, 2, 1000, 131071, 999999, 1 << 20};
  const Index rows = static_cast<Index>(positions.size());
  for (const float base : {10000.0f, 500000.0f, 1e6f}) {
    for (const Index dimension : {2, 6, 64, 128}) {
      Tensor table({rows, dimension, 3});
      ops::rotary_table(Host::Stream(3), view(positions), base, table.matrix());
      for (Index row = 0; row < rows; ++row) {
        for (Index i = 0; i < dimension / 2; ++i) {
          const long double exponent =
              -2.0L * static_cast<long double>(i) / static_cast<long double>(dimension);
          const long double angle = static_cast<long double>(positions[static_cast<std::size_t>(row)]) *
                                    std::pow(static_cast<long double>(base), exponent);
          // An entry's own rounding, 2^-25, and 3 roundings of 2^-53 in an angle of up to 2^20.
          ASSERT_NEAR(double{table(row, i)}, static_cast<double>(std::cos(angle)), 3.1e-8);
          ASSERT_NEAR(double{table(row, dimension / 2 + i)}, static_cast<double>(std::sin(angle)), 3.1e-8);
        }
      }
      EXPECT_TRUE(table.padding_untouched());
    }
  }
}

TEST(Rotary, RotatesThePairsOfEveryHead) {
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape);
    const Problem problem{shape};
    const Tensor y = problem.rotated(Host::Stream(3));
    // A rounding of the table, two products and a sum.
    EXPECT_LE(relative_error(y, rotated(problem, problem.x, 1)), 2e-7);
    EXPECT_TRUE(y.padding_untouched());
  }
}

TEST(RotaryBackward, RotatesBack) {
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape);
    const Problem problem{shape};
    const Tensor d = problem.rotated_back(Host::Stream(3));
    EXPECT_LE(relative_error(d, rotated(problem, problem.dy, -1)), 2e-7);
    EXPECT_TRUE(d.padding_untouched());
  }
}

// <R x, dy> = <x, Rᵀ dy>, which is what makes it the backward pass of a linear map.
TEST(RotaryBackward, IsTheTranspose) {
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape);
    const Problem problem{shape};
    const Tensor y = problem.rotated(Host::Stream());
    const Tensor d = problem.rotated_back(Host::Stream());
    double forward = 0;
    double backward = 0;
    double scale = 0;
    for (Index row = 0; row < y.rows(); ++row) {
      for (Index c = 0; c < y.columns(); ++c) {
        forward += double{y(row, c)} * double{problem.dy(row, c)};
        backward += double{problem.x(row, c)} * double{d(row, c)};
        scale += std::abs(double{y(row, c)} * double{problem.dy(row, c)});
      }
    }
    EXPECT_NEAR(forward, backward, 2e-7 * scale);
  }
}

// What attention needs of it: scores depend on how far apart query and key are, wherever they are.
TEST(Rotary, ProductsOfRowsDependOnTheirDistanceAlone) {
  constexpr Index dimension = 64;
  const auto product = [](std::int32_t query, std::int32_t key) {
    const std::vector<std::int32_t> positions{query, key};
    Tensor table({2, dimension});
    ops::rotary_table(Host::Stream(), view(positions), theta, table.matrix());
    Tensor x = random_tensor({2, dimension}, 3);
    ops::rotary(Host::Stream(), table.matrix(), heads_of(x, 1, dimension));
    double sum = 0;
    for (Index c = 0; c < dimension; ++c) sum += double{x(0, c)} * double{x(1, c)};
    return sum;
  };
  const double near = product(5, 2);
  EXPECT_GT(std::abs(near - product(5, 3)), 1e-2);
  for (const std::int32_t shift : {1, 1000, 1 << 20}) {
    // Sums of 64 products of about 1, each with roundings of a few 2^-24.
    EXPECT_NEAR(product(5 + shift, 2 + shift), near, 5e-6) << shift;
  }
}

TEST(Rotary, LeavesRowsOfPaddingAndOfPositionZeroAsTheyAre) {
  const std::vector<std::int32_t> positions{0, -1, 3, -7};
  Tensor table({4, 6});
  ops::rotary_table(Host::Stream(), view(positions), theta, table.matrix());
  const Tensor before = random_tensor({4, 12}, 4);
  Tensor x = before;
  ops::rotary(Host::Stream(), table.matrix(), heads_of(x, 1, 6));
  for (Index row = 0; row < 4; ++row) {
    for (Index c = 0; c < 12; ++c) EXPECT_EQ(x(row, c) == before(row, c), row != 2);
  }
}

TEST(Rotary, LargeValuesStayFiniteAndNanStaysInItsPair) {
  constexpr Index dimension = 40;
  const std::vector<std::int32_t> positions{12345};
  Tensor table({1, dimension});
  ops::rotary_table(Host::Stream(), view(positions), theta, table.matrix());
  Tensor x({1, dimension});
  for (Index c = 0; c < dimension; ++c) x(0, c) = c % 2 == 0 ? 1e38f : -1e38f;
  x(0, 17) = std::nanf("");
  ops::rotary(Host::Stream(), table.matrix(), heads_of(x, 1, dimension));
  for (Index c = 0; c < dimension; ++c) {
    const bool pair = c % (dimension / 2) == 17;
    EXPECT_EQ(std::isnan(x(0, c)), pair) << c;
    if (!pair) {
      EXPECT_LE(std::abs(x(0, c)), std::numbers::sqrt2_v<float> * 1.000001e38f) << c;
    }
  }
}

TEST(Rotary, SameBitsForAnyNumberOfThreads) {
  const Problem problem{{3, 300, 5, 70}};
  test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
    return std::vector<Tensor>{problem.table(stream), problem.rotated(stream), problem.rotated_back(stream)};
  });
}

}  // namespace
}  // namespace trilith
