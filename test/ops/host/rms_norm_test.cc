#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/rms_norm.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

constexpr float epsilon = 1e-5f;

// The mean takes sums of up to 777 terms in 64 lanes, each with a few roundings of 2^-24; sums over rows are
// of up to 131 terms.
constexpr double tolerance = 1e-6;

struct Row {
  std::vector<double> x;
  double rstd = 0;

  Row(const Tensor& tensor, Index row) {
    for (Index c = 0; c < tensor.columns(); ++c) x.push_back(double{tensor(row, c)});
    update();
  }
  void update() {
    double square = 0;
    for (double value : x) square += value * value / static_cast<double>(x.size());
    rstd = 1 / std::sqrt(square + double{epsilon});
  }
  double normal(Index c) const { return x[static_cast<std::size_t>(c)] * rstd; }
};

struct Problem {
  Extent extent;
  Tensor x = random_tensor(extent, 1, 2.0f, 0.7f);
  Tensor gamma = random_tensor(extent.columns, 2, 0.5f, 1.0f);
  Tensor dy = random_tensor({extent.rows, extent.columns, 2}, 4);
  Tensor d_residual = random_tensor({extent.rows, extent.columns, 5}, 5);
};

struct Forward {
  Tensor y;
  Tensor rstd;

  Forward(const Host::Stream& stream, const Problem& problem)
      : y(Extent{problem.extent.rows, problem.extent.columns, 3}), rstd(problem.extent.rows) {
    ops::rms_norm(stream, problem.x.matrix(), problem.gamma.vector(), epsilon, y.matrix(), rstd.vector());
  }
};

struct Gradients {
  Reference dx;
  Reference gamma;

  explicit Gradients(const Problem& problem)
      : dx(problem.extent.rows, problem.extent.columns), gamma(problem.extent.columns) {
    const Index width = problem.extent.columns;
    for (Index r = 0; r < problem.extent.rows; ++r) {
      const Row row(problem.x, r);
      double mean = 0;
      for (Index c = 0; c < width; ++c) {
        const double dy = double{problem.dy(r, c)};
        mean += dy * double{problem.gamma[c]} * row.normal(c) / static_cast<double>(width);
        gamma[c] += dy * row.normal(c);
      }
      for (Index c = 0; c < width; ++c) {
        const double scaled = double{problem.dy(r, c)} * double{problem.gamma[c]};
        dx(r, c) = row.rstd * (scaled - row.normal(c) * mean);
      }
    }
  }
};

TEST(RmsNorm, DividesEveryRowByItsRootMeanSquare) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Problem problem{extent};
    const Forward actual(Host::Stream(3), problem);
    Reference y(extent.rows, extent.columns);
    Reference rstd(extent.rows);
    for (Index r = 0; r < extent.rows; ++r) {
      const Row row(problem.x, r);
      rstd[r] = row.rstd;
      for (Index c = 0; c < extent.columns; ++c) y(r, c) = row.normal(c) * double{problem.gamma[c]};
    }
    EXPECT_LE(relative_error(actual.y, y), tolerance);
    EXPECT_LE(relative_error(actual.rstd, rstd), tolerance);
    EXPECT_TRUE(actual.y.padding_untouched());
  }
}

TEST(RmsNorm, OfLargeAndOfTinyRowsIsFinite) {
  Problem problem{{3, 100}};
  for (Index c = 0; c < 100; ++c) {
    problem.x(0, c) = c % 2 == 0 ? 1e15f : -1e15f;
    problem.x(1, c) = 1e-30f;  // far below √epsilon
    problem.x(2, c) = 0;
  }
  const Forward actual(Host::Stream(), problem);
  for (Index c = 0; c < 100; ++c) {
    const float gamma = problem.gamma[c];
    EXPECT_FLOAT_EQ(actual.y(0, c), c % 2 == 0 ? gamma : -gamma);
    EXPECT_FLOAT_EQ(actual.y(1, c), 1e-30f / std::sqrt(epsilon) * gamma);
    EXPECT_EQ(actual.y(2, c), 0.0f);
  }
}

TEST(RmsNorm, NanInARowStaysInThatRow) {
  Problem problem{{3, 40}};
  problem.x(1, 17) = std::nanf("");
  const Forward actual(Host::Stream(), problem);
  for (Index r = 0; r < 3; ++r) {
    for (Index c = 0; c < 40; ++c) EXPECT_EQ(std::isnan(actual.y(r, c)), r == 1);
  }
}

TEST(RmsNorm, MayOverwriteItsInput) {
  Problem problem{{33, 100, 3}};
  const Forward expected(Host::Stream(), problem);
  Tensor x = problem.x;
  Tensor rstd(problem.extent.rows);
  ops::rms_norm(Host::Stream(), x.matrix(), problem.gamma.vector(), epsilon, x.matrix(), rstd.vector());
  EXPECT_TRUE(x == expected.y);
}

TEST(AddResidualRmsNorm, HasTheBitsOfItsTwoParts) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Host::Stream stream(2);
    Problem problem{extent};
    const Tensor residual = random_tensor({extent.rows, extent.columns, 1}, 7);
    Tensor x = problem.x;
    Tensor y({extent.rows, extent.columns, 3});
    Tensor rstd(extent.rows);
    ops::add_residual_rms_norm(stream, residual.matrix(), x.matrix(), problem.gamma.vector(), epsilon,
                               y.matrix(), rstd.vector());

    for (Index r = 0; r < extent.rows; ++r) {
      ops::add(stream, flat(residual.matrix()[r]), flat(problem.x.matrix()[r]));
    }
    const Forward expected(stream, problem);
    EXPECT_TRUE(x == problem.x);
    EXPECT_TRUE(y == expected.y);
    EXPECT_TRUE(rstd == expected.rstd);
  }
}

TEST(RmsNormBackward, ReferenceAgreesWithFiniteDifferences) {
  const Problem problem{{2, 17}};
  const Gradients gradients(problem);
  const auto loss = [&](const Row& row, Index r) {
    double sum = 0;
    for (Index c = 0; c < 17; ++c) {
      sum += double{problem.dy(r, c)} * row.normal(c) * double{problem.gamma[c]};
    }
    return sum;
  };
  constexpr double step = 1e-5;  // truncation and cancellation both below 1e-9
  for (Index r = 0; r < 2; ++r) {
    for (std::size_t c = 0; c < 17; ++c) {
      Row up(problem.x, r);
      up.x[c] += step;
      up.update();
      Row down(problem.x, r);
      down.x[c] -= step;
      down.update();
      EXPECT_NEAR((loss(up, r) - loss(down, r)) / (2 * step), gradients.dx(r, static_cast<Index>(c)), 1e-8);
    }
  }
}

TEST(RmsNormBackward, IsTheGradientOfTheNorm) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Host::Stream stream(3);
    const Problem problem{extent};
    const Forward forward(stream, problem);
    Gradients expected(problem);
    Tensor dx({extent.rows, extent.columns, 1});
    Tensor d_gamma(extent.columns);
    ops::rms_norm_backward(stream, problem.dy.matrix(), problem.x.matrix(), problem.gamma.vector(),
                           forward.rstd.vector(), dx.matrix(), d_gamma.vector(), Accumulate::no);
    // The gradient of a single column is 0 but for epsilon and rounding.
    if (extent.columns > 1) {
      EXPECT_LE(relative_error(dx, expected.dx), tolerance);
    }
    EXPECT_LE(relative_error(d_gamma, expected.gamma), tolerance);
    EXPECT_TRUE(dx.padding_untouched());

    // Added to what is there, and to the gradient that goes round the norm, in place.
    const Tensor before = random_tensor(extent.columns, 8);
    d_gamma = before;
    Tensor around = problem.d_residual;
    ops::rms_norm_backward(stream, problem.dy.matrix(), problem.x.matrix(), problem.gamma.vector(),
                           forward.rstd.vector(), around.matrix(), around.matrix(), d_gamma.vector(),
                           Accumulate::yes);
    for (Index c = 0; c < extent.columns; ++c) {
      expected.gamma[c] += double{before[c]};
      for (Index r = 0; r < extent.rows; ++r) expected.dx(r, c) += double{problem.d_residual(r, c)};
    }
    EXPECT_LE(relative_error(around, expected.dx), tolerance);
    EXPECT_LE(relative_error(d_gamma, expected.gamma), tolerance);
    EXPECT_TRUE(around.padding_untouched());

    // In place of the gradient of the output.
    Tensor d({extent.rows, extent.columns, 1});
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) d(r, c) = problem.dy(r, c);
    }
    ops::rms_norm_backward(stream, d.matrix(), problem.x.matrix(), problem.gamma.vector(),
                           forward.rstd.vector(), d.matrix(), d_gamma.vector(), Accumulate::no);
    EXPECT_TRUE(d == dx);
  }
}

TEST(RmsNorm, SameBitsForAnyNumberOfThreads) {
  for (const Extent extent : {Extent{600, 257, 3}, Extent{5000, 33}, Extent{97, 3072}}) {
    const Problem problem{extent};
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      Tensor x = problem.x;
      Tensor y(extent);
      Tensor rstd(extent.rows);
      ops::add_residual_rms_norm(stream, problem.d_residual.matrix(), x.matrix(), problem.gamma.vector(),
                                 epsilon, y.matrix(), rstd.vector());
      Tensor dx(extent);
      Tensor d_gamma = problem.gamma;
      ops::rms_norm_backward(stream, problem.dy.matrix(), x.matrix(), problem.gamma.vector(), rstd.vector(),
                             problem.d_residual.matrix(), dx.matrix(), d_gamma.vector(), Accumulate::yes);
      return std::vector<Tensor>{x, y, rstd, dx, d_gamma};
    });
  }
}

}  // namespace
}  // namespace trilith
