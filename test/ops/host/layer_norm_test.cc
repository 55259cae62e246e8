#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/layer_norm.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

constexpr float epsilon = 1e-5f;

// Mean and variance take sums of up to 777 terms in 64 lanes, each with a few roundings of 2^-24. In a single
// column the variance is 0 and rstd 1 / √epsilon = 316, which is what it multiplies roundings of dx by.
double tolerance(Extent extent) {
  return extent.columns > 1 ? 3e-6 : 1e-4;
}

struct Row {
  std::vector<double> x;
  double mean = 0;
  double rstd = 0;

  Row(const Tensor& tensor, Index row) {
    const Index width = tensor.columns();
    for (Index c = 0; c < width; ++c) x.push_back(double{tensor(row, c)});
    update();
  }
  void update() {
    mean = 0;
    for (double value : x) mean += value / static_cast<double>(x.size());
    double variance = 0;
    for (double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
    rstd = 1 / std::sqrt(variance + double{epsilon});
  }
  double normal(Index c) const { return (x[static_cast<std::size_t>(c)] - mean) * rstd; }
};

struct Problem {
  Extent extent;
  Tensor x = random_tensor(extent, 1, 2.0f, 0.7f);
  Tensor gamma = random_tensor(extent.columns, 2, 0.5f, 1.0f);
  Tensor beta = random_tensor(extent.columns, 3);
  Tensor dy = random_tensor({extent.rows, extent.columns, 2}, 4);
  Tensor d_residual = random_tensor({extent.rows, extent.columns, 5}, 5);
};

struct Forward {
  Tensor y;
  Tensor mean;
  Tensor rstd;

  Forward(const Host::Stream& stream, const Problem& problem)
      : y(Extent{problem.extent.rows, problem.extent.columns, 3}),
        mean(problem.extent.rows),
        rstd(problem.extent.rows) {
    ops::layer_norm(stream, problem.x.matrix(), problem.gamma.vector(), problem.beta.vector(), epsilon,
                    y.matrix(), mean.vector(), rstd.vector());
  }
};

struct Gradients {
  Reference dx;
  Reference gamma;
  Reference beta;

  explicit Gradients(const Problem& problem)
      : dx(problem.extent.rows, problem.extent.columns),
        gamma(problem.extent.columns),
        beta(problem.extent.columns) {
    const Index width = problem.extent.columns;
    for (Index r = 0; r < problem.extent.rows; ++r) {
      const Row row(problem.x, r);
      double mean = 0;
      double mean_normal = 0;
      for (Index c = 0; c < width; ++c) {
        const double dy = double{problem.dy(r, c)};
        const double scaled = dy * double{problem.gamma[c]};
        mean += scaled / static_cast<double>(width);
        mean_normal += scaled * row.normal(c) / static_cast<double>(width);
        gamma[c] += dy * row.normal(c);
        beta[c] += dy;
      }
      for (Index c = 0; c < width; ++c) {
        const double scaled = double{problem.dy(r, c)} * double{problem.gamma[c]};
        dx(r, c) = row.rstd * (scaled - mean - row.normal(c) * mean_normal);
      }
    }
  }
};

TEST(LayerNorm, NormalisesEveryRow) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Problem problem{extent};
    const Forward actual(Host::Stream(3), problem);
    Reference y(extent.rows, extent.columns);
    Reference mean(extent.rows);
    Reference rstd(extent.rows);
    for (Index r = 0; r < extent.rows; ++r) {
      const Row row(problem.x, r);
      mean[r] = row.mean;
      rstd[r] = row.rstd;
      for (Index c = 0; c < extent.columns; ++c) {
        y(r, c) = row.normal(c) * double{problem.gamma[c]} + double{problem.beta[c]};
      }
    }
    EXPECT_LE(relative_error(actual.y, y), tolerance(extent));
    EXPECT_LE(relative_error(actual.mean, mean), tolerance(extent));
    EXPECT_LE(relative_error(actual.rstd, rstd), tolerance(extent));
    EXPECT_TRUE(actual.y.padding_untouched());
  }
}

TEST(LayerNorm, VarianceDoesNotCancelBesideALargeMean) {
  Problem problem{{20, 768}};
  problem.x = random_tensor(problem.extent, 9, 1.0f, 10000.0f);
  const Forward actual(Host::Stream(), problem);
  for (Index r = 0; r < problem.extent.rows; ++r) {
    const Row row(problem.x, r);
    // The mean may be off by 10000 · 2^-23, whose square is what the variance is off by.
    EXPECT_NEAR(double{actual.rstd[r]}, row.rstd, 1e-5);
  }
}

TEST(LayerNorm, OfAConstantRowIsBeta) {
  Problem problem{{2, 100}};
  for (Index c = 0; c < 100; ++c) problem.x(0, c) = problem.x(1, c) = 3.0f;
  const Forward actual(Host::Stream(), problem);
  for (Index c = 0; c < 100; ++c) EXPECT_EQ(actual.y(1, c), problem.beta[c]);
}

TEST(AddBiasResidualLayerNorm, HasTheBitsOfItsTwoParts) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Host::Stream stream(2);
    Problem problem{extent};
    const Tensor bias = random_tensor(extent.columns, 6);
    const Tensor residual = random_tensor(extent, 7);
    Tensor x = problem.x;
    Tensor y({extent.rows, extent.columns, 3});
    Tensor mean(extent.rows);
    Tensor rstd(extent.rows);
    ops::add_bias_residual_layer_norm(stream, bias.vector(), residual.matrix(), x.matrix(),
                                      problem.gamma.vector(), problem.beta.vector(), epsilon, y.matrix(),
                                      mean.vector(), rstd.vector());

    ops::add_bias_residual(stream, bias.vector(), residual.matrix(), problem.x.matrix());
    const Forward expected(stream, problem);
    EXPECT_TRUE(x == problem.x);
    EXPECT_TRUE(y == expected.y);
    EXPECT_TRUE(mean == expected.mean);
    EXPECT_TRUE(rstd == expected.rstd);
  }
}

TEST(LayerNormBackward, ReferenceAgreesWithFiniteDifferences) {
  const Problem problem{{2, 17}};
  const Gradients gradients(problem);
  const auto loss = [&](const Row& row, Index r) {
    double sum = 0;
    for (Index c = 0; c < 17; ++c) {
      sum += double{problem.dy(r, c)} * (row.normal(c) * double{problem.gamma[c]} + double{problem.beta[c]});
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

TEST(LayerNormBackward, IsTheGradientOfTheNorm) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Host::Stream stream(3);
    const Problem problem{extent};
    const Forward forward(stream, problem);
    Gradients expected(problem);
    Tensor dx({extent.rows, extent.columns, 1});
    Tensor d_gamma(extent.columns);
    Tensor d_beta(extent.columns);
    ops::layer_norm_backward(stream, problem.dy.matrix(), problem.x.matrix(), problem.gamma.vector(),
                             forward.mean.vector(), forward.rstd.vector(), dx.matrix(), d_gamma.vector(),
                             d_beta.vector(), Accumulate::no);
    // The gradient of a single column is 0 but for rounding.
    if (extent.columns > 1) {
      EXPECT_LE(relative_error(dx, expected.dx), tolerance(extent));
      EXPECT_LE(relative_error(d_gamma, expected.gamma), tolerance(extent));
    }
    EXPECT_LE(relative_error(d_beta, expected.beta), tolerance(extent));
    EXPECT_TRUE(dx.padding_untouched());

    // Added to what is there, and to the gradient that goes round the norm, in place.
    const Tensor before = random_tensor(extent.columns, 8);
    d_gamma = before;
    d_beta = before;
    Tensor around = problem.d_residual;
    ops::layer_norm_backward(stream, problem.dy.matrix(), problem.x.matrix(), problem.gamma.vector(),
                             forward.mean.vector(), forward.rstd.vector(), around.matrix(), around.matrix(),
                             d_gamma.vector(), d_beta.vector(), Accumulate::yes);
    for (Index c = 0; c < extent.columns; ++c) {
      expected.gamma[c] += double{before[c]};
      expected.beta[c] += double{before[c]};
      for (Index r = 0; r < extent.rows; ++r) expected.dx(r, c) += double{problem.d_residual(r, c)};
    }
    EXPECT_LE(relative_error(around, expected.dx), tolerance(extent));
    EXPECT_LE(relative_error(d_gamma, expected.gamma), tolerance(extent));
    EXPECT_LE(relative_error(d_beta, expected.beta), tolerance(extent));
    EXPECT_TRUE(around.padding_untouched());

    // In place of the gradient of the output.
    Tensor d({extent.rows, extent.columns, 1});
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) d(r, c) = problem.dy(r, c);
    }
    ops::layer_norm_backward(stream, d.matrix(), problem.x.matrix(), problem.gamma.vector(),
                             forward.mean.vector(), forward.rstd.vector(), d.matrix(), d_gamma.vector(),
                             d_beta.vector(), Accumulate::no);
    EXPECT_TRUE(d == dx);
  }
}

TEST(LayerNorm, SameBitsForAnyNumberOfThreads) {
  for (const Extent extent : {Extent{600, 257, 3}, Extent{5000, 33}, Extent{97, 3072}}) {
    const Problem problem{extent};
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      const Forward forward(stream, problem);
      Tensor dx(extent);
      Tensor d_gamma = problem.gamma;
      Tensor d_beta = problem.beta;
      ops::layer_norm_backward(stream, problem.dy.matrix(), problem.x.matrix(), problem.gamma.vector(),
                               forward.mean.vector(), forward.rstd.vector(), problem.d_residual.matrix(),
                               dx.matrix(), d_gamma.vector(), d_beta.vector(), Accumulate::yes);
      return std::vector<Tensor>{forward.y, forward.mean, forward.rstd, dx, d_gamma, d_beta};
    });
  }
}

}  // namespace
}  // namespace trilith
