// LayerNorm and RmsNorm: rows that a warp holds, that a block holds, that are loaded again, and that no load
// of several elements may begin at.

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/layer_norm.hpp>
#include <trilith/ops/cuda/rms_norm.hpp>

#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

constexpr float epsilon = 1e-5f;
constexpr double ulp = 0x1p-23;

template <class T>
class NormKernels : public testing::Test {};
TYPED_TEST_SUITE(NormKernels, ElementTypes);

const std::vector<Extent> norm_extents = {{1, 1},      {5, 7, 1},    {3, 33},   {9, 64},
                                          {3, 768, 8}, {2, 1001, 7}, {2, 1024}, {2, 1032, 8},
                                          {1, 4096},   {1, 8192},    {1, 8200}, {600, 64}};

template <class T>
struct Problem {
  Extent extent;
  float mean = 0.7f;
  Elements<T> x = random_elements<T>(extent, 1, 2, mean);
  Elements<T> gamma = random_elements<T>(extent.columns, 2, 0.5f, 1);
  Elements<T> beta = random_elements<T>(extent.columns, 3);
  Elements<T> bias = random_elements<T>(extent.columns, 4);
  Elements<T> residual = random_elements<T>({extent.rows, extent.columns, 2 * extent.padding}, 5);
  Elements<T> dy = random_elements<T>({extent.rows, extent.columns, 2 * extent.padding}, 6);

  Index rows() const { return extent.rows; }
  Index columns() const { return extent.columns; }
};

template <class T>
struct Forward {
  Elements<T> x;  // after the sum
  Elements<T> y;
  Elements<float> mean;
  Elements<float> rstd;

  explicit Forward(const Problem<T>& problem)
      : x(problem.x), y(problem.extent), mean(problem.rows()), rstd(problem.rows()) {}
  bool operator==(const Forward&) const = default;
};

template <class T>
Forward<T> forward(const Emulated::Stream& s, const Problem<T>& problem, bool layer) {
  Forward<T> f(problem);
  if (layer) {
    ops::layer_norm(s, problem.x.matrix(), problem.gamma.vector(), problem.beta.vector(), epsilon,
                    f.y.matrix(), f.mean.vector(), f.rstd.vector());
  } else {
    ops::rms_norm(s, problem.x.matrix(), problem.gamma.vector(), epsilon, f.y.matrix(), f.rstd.vector());
  }
  return f;
}

// Of the definition, in float64.
struct Statistics {
  double mean = 0;
  double rstd = 0;
  double most = 0;  // of |x|
};

template <class T>
Statistics statistics(const Elements<T>& x, Index row, bool layer) {
  Statistics s;
  const auto width = static_cast<double>(x.columns());
  for (Index c = 0; c < x.columns(); ++c) {
    if (layer) s.mean += x(row, c) / width;
    s.most = std::max(s.most, std::abs(x(row, c)));
  }
  double variance = 0;
  for (Index c = 0; c < x.columns(); ++c) variance += (x(row, c) - s.mean) * (x(row, c) - s.mean) / width;
  s.rstd = 1 / std::sqrt(variance + double{epsilon});
  return s;
}

// The mean is a sum of up to 32 + 8 terms one after the other, and so wrong by 20 ulp of the greatest x,
// which rstd multiplies; in a single column rstd is 316.
template <class T>
void expect_norm_of(const Problem<T>& problem, const Elements<T>& x, const Forward<T>& f, bool layer) {
  std::vector<Statistics> expected;
  for (Index row = 0; row < problem.rows(); ++row) expected.push_back(statistics(x, row, layer));
  expect_near(f.y, [&](Index row, Index c) {
    const Statistics& s = expected[static_cast<std::size_t>(row)];
    const double gamma = problem.gamma[c];
    const double y = (x(row, c) - s.mean) * s.rstd * gamma;
    const double beta = layer ? problem.beta[c] : 0;
    return Near{y + beta, ulp * (20 * s.most * s.rstd * std::abs(gamma) + 20 * std::abs(y) + std::abs(beta))};
  });
  expect_near(f.rstd, [&](Index, Index row) {
    const Statistics& s = expected[static_cast<std::size_t>(row)];
    return Near{s.rstd, ulp * s.rstd * (20 + 20 * s.most * s.rstd)};
  });
  if (layer) {
    expect_near(f.mean, [&](Index, Index row) {
      const Statistics& s = expected[static_cast<std::size_t>(row)];
      return Near{s.mean, 20 * ulp * s.most};
    });
  }
  EXPECT_TRUE(f.y.padding_untouched());
}

TYPED_TEST(NormKernels, AreTheirDefinition) {
  using T = TypeParam;
  for (const Extent& extent : norm_extents) {
    for (const bool layer : {true, false}) {
      SCOPED_TRACE(testing::Message() << extent << (layer ? " layer" : " rms"));
      const Problem<T> problem{extent};
      const auto f = in_every_order([&](const Emulated::Stream& s) { return forward(s, problem, layer); });
      expect_norm_of(problem, problem.x, f, layer);
    }
  }
}

// Mean of x² minus mean² would be wrong in every digit.
TYPED_TEST(NormKernels, LargeMeansCancelNothing) {
  using T = TypeParam;
  for (const Extent& extent : {Extent{3, 768}, Extent{1, 4096}, Extent{1, 8200}, Extent{2, 333, 1}}) {
    SCOPED_TRACE(extent);
    const Problem<T> problem{.extent = extent, .mean = 1000};
    const auto f = in_every_order([&](const Emulated::Stream& s) { return forward(s, problem, true); });
    expect_norm_of(problem, problem.x, f, true);
  }
}

TYPED_TEST(NormKernels, AfterASumHaveTheBitsOfTwoOperations) {
  using T = TypeParam;
  for (const Extent& extent : norm_extents) {
    SCOPED_TRACE(extent);
    Problem<T> problem{extent};
    const Emulated::Stream s(simt::Emulation{.seed = 4});
    Forward<T> fused(problem);
    ops::add_bias_residual_layer_norm(s, problem.bias.vector(), problem.residual.matrix(), fused.x.matrix(),
                                      problem.gamma.vector(), problem.beta.vector(), epsilon,
                                      fused.y.matrix(), fused.mean.vector(), fused.rstd.vector());
    Problem<T> summed = problem;
    ops::add_bias_residual(s, problem.bias.vector(), problem.residual.matrix(), summed.x.matrix());
    EXPECT_TRUE(fused == forward(s, summed, true));

    Forward<T> rms(problem);
    ops::add_residual_rms_norm(s, problem.residual.matrix(), rms.x.matrix(), problem.gamma.vector(), epsilon,
                               rms.y.matrix(), rms.rstd.vector());
    summed = problem;
    for (Index row = 0; row < extent.rows; ++row) {
      ops::add(s, flat(problem.residual.matrix()[row]), flat(summed.x.matrix()[row]));
    }
    EXPECT_TRUE(rms == forward(s, summed, false));
  }
}

template <class T>
struct Gradients {
  Elements<T> dx;
  Elements<float> gamma;
  Elements<float> beta;

  explicit Gradients(const Problem<T>& problem)
      : dx(problem.extent),
        gamma(random_elements<float>(problem.columns(), 7)),
        beta(random_elements<float>(problem.columns(), 8)) {}
  bool operator==(const Gradients&) const = default;
};

template <class T>
Gradients<T> backward(const Emulated::Stream& s, const Problem<T>& problem, const Forward<T>& f, bool layer,
                      bool residual, Accumulate accumulate) {
  Gradients<T> g(problem);
  const auto [x, dy, gamma] = std::tuple(problem.x.matrix(), problem.dy.matrix(), problem.gamma.vector());
  const Vector<const float> mean = f.mean.vector();
  const Vector<const float> rstd = f.rstd.vector();
  if (layer && residual) {
    ops::layer_norm_backward(s, dy, x, gamma, mean, rstd, problem.residual.matrix(), g.dx.matrix(),
                             g.gamma.vector(), g.beta.vector(), accumulate);
  } else if (layer) {
    ops::layer_norm_backward(s, dy, x, gamma, mean, rstd, g.dx.matrix(), g.gamma.vector(), g.beta.vector(),
                             accumulate);
  } else if (residual) {
    ops::rms_norm_backward(s, dy, x, gamma, rstd, problem.residual.matrix(), g.dx.matrix(), g.gamma.vector(),
                           accumulate);
  } else {
    ops::rms_norm_backward(s, dy, x, gamma, rstd, g.dx.matrix(), g.gamma.vector(), accumulate);
  }
  return g;
}

// From the statistics that forward left.
template <class T>
void expect_gradients(const Problem<T>& problem, const Forward<T>& f, const Gradients<T>& g, bool layer,
                      bool residual, Accumulate accumulate) {
  const auto width = static_cast<double>(problem.columns());
  const auto mean = [&](Index row) { return layer ? f.mean[row] : 0.0; };
  const auto normal = [&](Index row, Index c) { return (problem.x(row, c) - mean(row)) * f.rstd[row]; };
  struct Means {
    double scaled = 0;
    double product = 0;
    double size = 0;  // of what is added
  };
  std::vector<Means> means(static_cast<std::size_t>(problem.rows()));
  for (Index row = 0; row < problem.rows(); ++row) {
    Means& m = means[static_cast<std::size_t>(row)];
    for (Index c = 0; c < problem.columns(); ++c) {
      const double scaled = problem.dy(row, c) * problem.gamma[c];
      if (layer) m.scaled += scaled / width;
      m.product += scaled * normal(row, c) / width;
      m.size += std::abs(scaled) * (1 + std::abs(normal(row, c))) / width;
    }
  }
  expect_near(g.dx, [&](Index row, Index c) {
    const Means& m = means[static_cast<std::size_t>(row)];
    const double scaled = problem.dy(row, c) * problem.gamma[c];
    const double through = f.rstd[row] * (scaled - m.scaled - normal(row, c) * m.product);
    // Each mean is a sum of up to 40 terms one after the other.
    const double size = f.rstd[row] * (std::abs(scaled) + m.size * (1 + std::abs(normal(row, c))));
    return Near{through + (residual ? problem.residual(row, c) : 0),
                20 * ulp * size + ulp * std::abs(through)};
  });
  const auto sums = [&](bool with_normal, const Elements<float>& before) {
    return [&, with_normal](Index, Index c) {
      Near near{accumulate == Accumulate::yes ? before[c] : 0, 0};
      near.tolerance = ulp * std::abs(near.value);
      for (Index row = 0; row < problem.rows(); ++row) {
        const double term = problem.dy(row, c) * (with_normal ? normal(row, c) : 1);
        near.value += term;
        near.tolerance += 8 * ulp * std::abs(problem.dy(row, c)) * (1 + std::abs(normal(row, c)));
      }
      return near;
    };
  };
  const Gradients<T> before(problem);
  expect_near(g.gamma, sums(true, before.gamma));
  if (layer) expect_near(g.beta, sums(false, before.beta));
  EXPECT_TRUE(g.dx.padding_untouched());
}

TYPED_TEST(NormKernels, BackwardIsTheirGradient) {
  using T = TypeParam;
  for (const Extent& extent : norm_extents) {
    const Problem<T> problem{extent};
    for (const bool layer : {true, false}) {
      const auto f = forward(Emulated::Stream(), problem, layer);
      for (const bool residual : {true, false}) {
        const bool wide = extent.columns > 1100;  // takes long
        if (wide && layer != residual) continue;
        const Accumulate accumulate = residual ? Accumulate::yes : Accumulate::no;
        SCOPED_TRACE(testing::Message()
                     << extent << (layer ? " layer" : " rms") << (residual ? ", residual" : ""));
        const auto run = [&](const Emulated::Stream& s) {
          return backward(s, problem, f, layer, residual, accumulate);
        };
        const auto g = wide ? run(Emulated::Stream(simt::Emulation{.seed = 7})) : in_every_order(run);
        expect_gradients(problem, f, g, layer, residual, accumulate);
      }
    }
  }
}

TYPED_TEST(NormKernels, MayOverwriteTheirInputs) {
  using T = TypeParam;
  for (const Extent& extent : {Extent{5, 64}, Extent{2, 4096}, Extent{1, 8200}, Extent{3, 33}}) {
    SCOPED_TRACE(extent);
    Problem<T> problem{extent};
    const Emulated::Stream s(simt::Emulation{.seed = 6});
    const auto f = forward(s, problem, true);
    const auto g = backward(s, problem, f, true, true, Accumulate::no);
    Elements<float> d_gamma(extent.columns);
    Elements<float> d_beta(extent.columns);
    for (Elements<T> Problem<T>::*in_place : {&Problem<T>::dy, &Problem<T>::residual}) {
      Problem<T> own = problem;
      ops::layer_norm_backward(s, own.dy.matrix(), own.x.matrix(), own.gamma.vector(), f.mean.vector(),
                               f.rstd.vector(), own.residual.matrix(), (own.*in_place).matrix(),
                               d_gamma.vector(), d_beta.vector(), Accumulate::no);
      EXPECT_TRUE(own.*in_place == g.dx);
      EXPECT_TRUE(d_gamma == g.gamma);
      EXPECT_TRUE(d_beta == g.beta);
    }
    Elements<T> y = problem.x;
    Elements<float> mean(extent.rows);
    Elements<float> rstd(extent.rows);
    ops::layer_norm(s, y.matrix(), problem.gamma.vector(), problem.beta.vector(), epsilon, y.matrix(),
                    mean.vector(), rstd.vector());
    EXPECT_TRUE(y == f.y);
  }
}

TYPED_TEST(NormKernels, NothingIsLaunchedForNoRows) {
  using T = TypeParam;
  const Emulated::Stream s;
  forward(s, Problem<T>{Extent{0, 64}}, true);
  forward(s, Problem<T>{Extent{0, 64}}, false);
  expect_no_launch(s);
}

// But for the statistics, of which each row has a number that every warp loads.
TYPED_TEST(NormKernels, MoveWholeSectorsAndLoadEachElementOnce) {
  using T = TypeParam;
  for (const Index columns : {768, 1024, 8192}) {
    SCOPED_TRACE(columns);
    constexpr Index rows = 4;
    const Problem<T> problem{Extent{rows, columns}};
    const Index bytes = rows * columns * static_cast<Index>(sizeof(T));
    const Emulated::Stream s;
    const auto f = forward(s, problem, false);
    // x and gamma
    EXPECT_EQ(s.counters().global_loads.bytes, 2 * bytes);
    EXPECT_EQ(s.counters().global_loads.sectors * 32, 2 * bytes);
    EXPECT_EQ(s.counters().global_stores.sectors * 32, bytes + rows * 32);
    s.clear_counters();
    backward(s, problem, f, false, false, Accumulate::no);
    // For the gradient of gamma x, dy and, in every 32 columns, a sector of statistics; then x and dy once
    // and gamma twice.
    const Index warps_of_row = columns <= 1024 ? 1 : 8;
    EXPECT_EQ(s.counters().global_loads.sectors * 32, 6 * bytes + columns + rows * warps_of_row * 32);
    EXPECT_EQ(s.counters().global_stores.sectors * 32, bytes + columns * 4);
    EXPECT_EQ(s.counters().bank_conflicts(), 0);
  }
}

}  // namespace
}  // namespace trilith::test
