#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/attention.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using ops::Mask;
using test::random_tensor;
using test::Reference;
using test::Tensor;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Shape {
  Index batch;
  Index queries;
  Index keys;
  Index heads;
  Index kv_heads;
  Index dimension;
  Mask mask;
  float logits = 1;  // standard deviation of the scaled scores

  Index group() const { return heads / kv_heads; }
  float scale() const { return logits / std::sqrt(static_cast<float>(dimension)); }
  bool sees(Index query, Index key) const {
    return mask == Mask::full || key <= query + keys - queries;
  }

  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    return out << s.batch << " × (" << s.queries << " queries, " << s.keys << " keys) × (" << s.heads
               << " / " << s.kv_heads << " heads) × " << s.dimension
               << (s.mask == Mask::causal ? " causal" : " full") << ", logits " << s.logits;
  }
};

// A tensor of (batch · sequence, heads · dimension) with strided rows, as attention sees it.
View<float, 4> heads_of(Tensor& x, Index batch, Index dimension) {
  const Index sequence = x.rows() / batch;
  return {&x(0, 0),
          {batch, sequence, x.columns() / dimension, dimension},
          {sequence * x.stride(), x.stride(), dimension, 1}};
}
View<const float, 4> heads_of(const Tensor& x, Index batch, Index dimension) {
  return heads_of(const_cast<Tensor&>(x), batch, dimension);
}

struct Inputs {
  Shape shape;
  Tensor q, k, v, d_out;

  explicit Inputs(const Shape& s)
      : shape(s),
        q(random_tensor({s.batch * s.queries, s.heads * s.dimension, 5}, 1)),
        k(random_tensor({s.batch * s.keys, s.kv_heads * s.dimension, 3}, 2)),
        v(random_tensor({s.batch * s.keys, s.kv_heads * s.dimension, 7}, 3)),
        d_out(random_tensor({s.batch * s.queries, s.heads * s.dimension, 1}, 4)) {}
};

// Poisoned until they are computed.
struct Results {
  Tensor out, lse, delta, dq, dk, dv;

  explicit Results(const Shape& s)
      : out({s.batch * s.queries, s.heads * s.dimension, 2}),
        lse({s.batch * s.heads, s.queries}),
        delta({s.batch * s.heads, s.queries}),
        dq({s.batch * s.queries, s.heads * s.dimension, 6}),
        dk({s.batch * s.keys, s.kv_heads * s.dimension, 4}),
        dv({s.batch * s.keys, s.kv_heads * s.dimension}) {}

  std::vector<Tensor> all() const { return {out, lse, delta, dq, dk, dv}; }
};

void forward(const Host::Stream& stream, const Inputs& x, Results& y) {
  const Shape& s = x.shape;
  ops::attention(stream, heads_of(x.q, s.batch, s.dimension), heads_of(x.k, s.batch, s.dimension),
                 heads_of(x.v, s.batch, s.dimension), s.scale(), s.mask,
                 heads_of(y.out, s.batch, s.dimension),
                 View<float, 3>(&y.lse(0, 0), {s.batch, s.heads, s.queries}));
}

void backward(const Host::Stream& stream, const Inputs& x, Results& y) {
  const Shape& s = x.shape;
  ops::attention_backward(
      stream, heads_of(x.q, s.batch, s.dimension), heads_of(x.k, s.batch, s.dimension),
      heads_of(x.v, s.batch, s.dimension), heads_of(y.out, s.batch, s.dimension),
      View<float, 3>(&y.lse(0, 0), {s.batch, s.heads, s.queries}),
      heads_of(x.d_out, s.batch, s.dimension), s.scale(), s.mask,
      View<float, 3>(&y.delta(0, 0), {s.batch, s.heads, s.queries}),
      heads_of(y.dq, s.batch, s.dimension), heads_of(y.dk, s.batch, s.dimension),
      heads_of(y.dv, s.batch, s.dimension));
}

Results attend(const Host::Stream& stream, const Inputs& x) {
  Results y(x.shape);
  forward(stream, x, y);
  backward(stream, x, y);
  return y;
}

// The definition in float64, one query at a time.
struct Expected {
  Reference out, lse, dq, dk, dv;

  explicit Expected(const Inputs& x)
      : out(x.q.rows(), x.q.columns()),
        lse(x.shape.batch * x.shape.heads, x.shape.queries),
        dq(x.q.rows(), x.q.columns()),
        dk(x.k.rows(), x.k.columns()),
        dv(x.k.rows(), x.k.columns()) {
    for (Index b = 0; b < x.shape.batch; ++b) {
      for (Index h = 0; h < x.shape.heads; ++h) {
        for (Index i = 0; i < x.shape.queries; ++i) add(x, b, h, i);
      }
    }
  }

 private:
  void add(const Inputs& x, Index b, Index h, Index i) {
    const Shape& s = x.shape;
    const Index row = b * s.queries + i;
    const Index first_row = b * s.keys;
    const Index column = h * s.dimension;
    const Index kv_column = h / s.group() * s.dimension;
    std::vector<double> weights(static_cast<std::size_t>(s.keys), -infinity);
    double most = -infinity;
    for (Index j = 0; j < s.keys; ++j) {
      if (!s.sees(i, j)) continue;
      double dot = 0;
      for (Index c = 0; c < s.dimension; ++c) {
        dot += double{x.q(row, column + c)} * double{x.k(first_row + j, kv_column + c)};
      }
      weights[static_cast<std::size_t>(j)] = dot * double{s.scale()};
      most = std::max(most, dot * double{s.scale()});
    }
    double sum = 0;
    for (double& weight : weights) sum += weight = most == -infinity ? 0 : std::exp(weight - most);
    lse(b * s.heads + h, i) = most + std::log(sum);
    if (sum == 0) return;

    double delta = 0;
    std::vector<double> d_weights(weights.size());
    for (Index j = 0; j < s.keys; ++j) {
      const double weight = weights[static_cast<std::size_t>(j)] /= sum;
      for (Index c = 0; c < s.dimension; ++c) {
        const double d = double{x.d_out(row, column + c)};
        const double v = double{x.v(first_row + j, kv_column + c)};
        out(row, column + c) += weight * v;
        dv(first_row + j, kv_column + c) += weight * d;
        d_weights[static_cast<std::size_t>(j)] += d * v;
      }
      delta += weight * d_weights[static_cast<std::size_t>(j)];
    }
    for (Index j = 0; j < s.keys; ++j) {
      const double d_score = weights[static_cast<std::size_t>(j)] *
                             (d_weights[static_cast<std::size_t>(j)] - delta) * double{s.scale()};
      for (Index c = 0; c < s.dimension; ++c) {
        dq(row, column + c) += d_score * double{x.k(first_row + j, kv_column + c)};
        dk(first_row + j, kv_column + c) += d_score * double{x.q(row, column + c)};
      }
    }
  }
};

double norm(const Reference& x, const Tensor& extents) {
  double sum = 0;
  for (Index row = 0; row < extents.rows(); ++row) {
    for (Index column = 0; column < extents.columns(); ++column) {
      if (std::isfinite(x(row, column))) sum += x(row, column) * x(row, column);
    }
  }
  return std::sqrt(sum);
}

// ‖actual − expected‖ / max(‖expected‖, floor), where −∞ must meet −∞; NaN gives +∞.
double norm_error(const Tensor& actual, const Reference& expected, double floor = 0) {
  double error = 0;
  for (Index row = 0; row < actual.rows(); ++row) {
    for (Index column = 0; column < actual.columns(); ++column) {
      const double a = double{actual(row, column)};
      const double e = expected(row, column);
      if (a != e) error += (a - e) * (a - e);
    }
  }
  if (error == 0) return 0;
  const double relative = std::sqrt(error) / std::max(norm(expected, actual), floor);
  return std::isnan(relative) ? infinity : relative;
}

void expect_near(const Results& actual, const Expected& expected, double tolerance) {
  EXPECT_LE(norm_error(actual.out, expected.out), tolerance);
  EXPECT_LE(norm_error(actual.lse, expected.lse), tolerance);
  EXPECT_LE(norm_error(actual.dv, expected.dv), tolerance);
  // Where every query sees one key, the gradients of q and k are 0: a difference of equal terms.
  const double floor = norm(expected.dv, actual.dv) / 10;
  EXPECT_LE(norm_error(actual.dq, expected.dq, floor), tolerance);
  EXPECT_LE(norm_error(actual.dk, expected.dk, floor), tolerance);
}

// Sums of up to 500 products in float32.
constexpr double rounding = 1e-5;
// A score of 100 is rounded by 100 · 2^-24 = 6e-6 a few times, and its weight by as much, relatively.
constexpr double rounding_of_large_logits = 3e-5;

TEST(Attention, EqualsTheReferenceForEverySize) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const Shape& shape : std::vector<Shape>{
             {1, 1, 1, 1, 1, 1, mask},      {1, 1, 1, 1, 1, 64, mask},    {2, 3, 3, 2, 2, 8, mask},
             {1, 16, 16, 2, 2, 16, mask},   {1, 33, 33, 1, 1, 24, mask},  {2, 64, 64, 3, 3, 64, mask},
             {1, 65, 65, 2, 2, 7, mask},    {1, 127, 127, 1, 1, 20, mask}, {1, 129, 129, 1, 1, 80, mask},
             {1, 256, 256, 1, 1, 128, mask}, {1, 300, 300, 2, 2, 40, mask}, {1, 1, 200, 2, 2, 33, mask},
             {1, 50, 400, 1, 1, 64, mask},  {1, 400, 50, 1, 1, 64, mask}}) {
      SCOPED_TRACE(shape);
      const Inputs inputs(shape);
      expect_near(attend(Host::Stream(2), inputs), Expected(inputs), rounding);
    }
  }
}

TEST(Attention, EqualsTheReferenceForSmallAndLargeLogits) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const float logits : {0.1f, 1.0f, 30.0f}) {
      const Shape shape{1, 200, 200, 2, 2, 64, mask, logits};
      SCOPED_TRACE(shape);
      const Inputs inputs(shape);
      expect_near(attend(Host::Stream(1), inputs), Expected(inputs),
                  logits > 1 ? rounding_of_large_logits : rounding);
    }
  }
}

TEST(Attention, SumsTheGradientsOfAKeyOverTheQueryHeadsOfItsGroup) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const Shape& shape : std::vector<Shape>{{2, 70, 70, 6, 2, 32, mask}, {1, 140, 150, 4, 1, 24, mask}}) {
      SCOPED_TRACE(shape);
      const Inputs inputs(shape);
      expect_near(attend(Host::Stream(3), inputs), Expected(inputs), rounding);
    }
  }
}

TEST(Attention, AlignsACausalMaskAtTheLastQueryAndTheLastKey) {
  const Inputs inputs({1, 2, 5, 1, 1, 8, Mask::causal});
  const Results all = attend(Host::Stream(1), inputs);
  expect_near(all, Expected(inputs), rounding);
  Inputs other = inputs;
  for (Index c = 0; c < 8; ++c) other.k(4, c) = other.v(4, c) = 9;
  const Results changed = attend(Host::Stream(1), other);
  EXPECT_EQ(changed.lse(0, 0), all.lse(0, 0)) << "the first query sees four of five keys";
  EXPECT_NE(changed.lse(0, 1), all.lse(0, 1)) << "the second query sees all five";
}

TEST(Attention, GivesZerosToQueriesThatSeeNoKey) {
  struct Lengths {
    Index queries, keys;
  };
  for (const auto& [queries, keys] :
       {Lengths{5, 2}, Lengths{34, 1}, Lengths{76, 1}, Lengths{146, 1}, Lengths{300, 40}}) {
    const Inputs inputs({1, queries, keys, 2, 2, 16, Mask::causal});
    SCOPED_TRACE(inputs.shape);
    const Results results = attend(Host::Stream(2), inputs);
    for (Index i = 0; i < queries - keys; ++i) {
      for (Index h = 0; h < 2; ++h) EXPECT_EQ(double{results.lse(h, i)}, -infinity) << i;
      for (Index c = 0; c < 32; ++c) {
        EXPECT_EQ(results.out(i, c), 0) << i;
        EXPECT_EQ(results.dq(i, c), 0) << i;
      }
    }
    expect_near(results, Expected(inputs), rounding);
  }
}

// Logits of some ten thousand leave one key with all the weight.
TEST(Attention, StaysFiniteWhereTheExponentialWouldOverflow) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    const Inputs inputs({1, 150, 150, 1, 1, 16, mask, 10000});
    const Results results = attend(Host::Stream(1), inputs);
    for (const Tensor& tensor : results.all()) {
      for (Index row = 0; row < tensor.rows(); ++row) {
        for (Index column = 0; column < tensor.columns(); ++column) {
          ASSERT_TRUE(std::isfinite(tensor(row, column))) << row << ", " << column;
        }
      }
    }
  }
}

TEST(Attention, WritesNothingBetweenTheRowsOfItsResults) {
  const Results results = attend(Host::Stream(2), Inputs({2, 37, 37, 2, 2, 20, Mask::causal}));
  for (const Tensor& tensor : results.all()) EXPECT_TRUE(tensor.padding_untouched());
}

TEST(Attention, GivesTheSameBitsForAnyThreads) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    const Inputs inputs({1, 300, 300, 4, 2, 40, mask});
    test::expect_same_bits_for_any_threads(
        [&](const Host::Stream& stream) { return attend(stream, inputs).all(); });
  }
}

// A ring's hop: backward over some of the keys, with the lse and the output of all of them.
TEST(Attention, GradientsOverPartsOfTheKeysAddUp) {
  const Inputs inputs({1, 20, 48, 2, 2, 16, Mask::full});
  const Expected expected(inputs);
  Results whole(inputs.shape);
  forward(Host::Stream(1), inputs, whole);

  Reference dq(20, 32);
  for (Index first = 0; first < 48; first += 16) {
    Inputs part({1, 20, 16, 2, 2, 16, Mask::full});
    for (Index row = 0; row < 16; ++row) {
      for (Index c = 0; c < 32; ++c) {
        part.k(row, c) = inputs.k(first + row, c);
        part.v(row, c) = inputs.v(first + row, c);
      }
    }
    Results results(part.shape);
    results.out = whole.out;
    results.lse = whole.lse;
    backward(Host::Stream(1), part, results);
    for (Index row = 0; row < 20; ++row) {
      for (Index c = 0; c < 32; ++c) dq(row, c) += double{results.dq(row, c)};
    }
    Reference dk(16, 32);
    for (Index row = 0; row < 16; ++row) {
      for (Index c = 0; c < 32; ++c) dk(row, c) = expected.dk(first + row, c);
    }
    EXPECT_LE(norm_error(results.dk, dk), rounding) << "keys from " << first;
  }
  backward(Host::Stream(1), inputs, whole);
  EXPECT_LE(norm_error(whole.dq, dq), rounding);
}

// With h = 2^-4 the central difference is wrong by h² and by the rounding of the loss over h: a few 1e-3.
TEST(Attention, GradientsAreFiniteDifferencesOfTheForwardPass) {
  Inputs inputs({1, 5, 7, 2, 1, 4, Mask::causal});
  const Results results = attend(Host::Stream(1), inputs);
  const auto loss = [&] {
    Results y(inputs.shape);
    forward(Host::Stream(1), inputs, y);
    double sum = 0;
    for (Index row = 0; row < y.out.rows(); ++row) {
      for (Index c = 0; c < y.out.columns(); ++c) {
        sum += double{y.out(row, c)} * double{inputs.d_out(row, c)};
      }
    }
    return sum;
  };
  const auto differences = [&](Tensor& x) {
    constexpr float h = 1.0f / 16;
    Reference result(x.rows(), x.columns());
    for (Index row = 0; row < x.rows(); ++row) {
      for (Index c = 0; c < x.columns(); ++c) {
        const float at = x(row, c);
        x(row, c) = at + h;
        const double above = loss();
        x(row, c) = at - h;
        result(row, c) = (above - loss()) / double{2 * h};
        x(row, c) = at;
      }
    }
    return result;
  };
  EXPECT_LE(norm_error(results.dq, differences(inputs.q)), 5e-3);
  EXPECT_LE(norm_error(results.dk, differences(inputs.k)), 5e-3);
  EXPECT_LE(norm_error(results.dv, differences(inputs.v)), 5e-3);
}

}  // namespace
}  // namespace trilith
