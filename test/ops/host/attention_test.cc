#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/attention.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using ops::Mask;
using test::attend;
using test::norm_error;
using test::Reference;
using test::Tensor;
using Expected = test::ExpectedAttention;
using Inputs = test::AttentionInputs;
using Results = test::AttentionResults;
using Shape = test::AttentionShape;

constexpr double infinity = std::numeric_limits<double>::infinity();

void expect_near(const Results& actual, const Expected& expected, double tolerance) {
  EXPECT_LE(norm_error(actual.out, expected.out), tolerance);
  EXPECT_LE(norm_error(actual.lse, expected.lse), tolerance);
  EXPECT_LE(norm_error(actual.dv, expected.dv), tolerance);
  // Where every query sees one key, the gradients of q and k are 0: a difference of equal terms.
  const double floor = test::norm(expected.dv, actual.dv) / 10;
  EXPECT_LE(norm_error(actual.dq, expected.dq, floor), tolerance);
  EXPECT_LE(norm_error(actual.dk, expected.dk, floor), tolerance);
}

// Sums of up to 500 products in float32.
constexpr double rounding = 1e-5;
// A score of 100 is rounded by 100 · 2^-24 = 6e-6 a few times, and its weight by as much, relatively.
constexpr double rounding_of_large_logits = 3e-5;

TEST(Attention, EqualsTheReferenceForEverySize) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1, 1, 1, mask},
                                                 {1, 1, 1, 1, 1, 64, mask},
                                                 {2, 3, 3, 2, 2, 8, mask},
                                                 {1, 16, 16, 2, 2, 16, mask},
                                                 {1, 33, 33, 1, 1, 24, mask},
                                                 {2, 64, 64, 3, 3, 64, mask},
                                                 {1, 65, 65, 2, 2, 7, mask},
                                                 {1, 127, 127, 1, 1, 20, mask},
                                                 {1, 129, 129, 1, 1, 80, mask},
                                                 {1, 256, 256, 1, 1, 128, mask},
                                                 {1, 300, 300, 2, 2, 40, mask},
                                                 {1, 1, 200, 2, 2, 33, mask},
                                                 {1, 50, 400, 1, 1, 64, mask},
                                                 {1, 400, 50, 1, 1, 64, mask}}) {
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
    for (const Shape& shape :
         std::vector<Shape>{{2, 70, 70, 6, 2, 32, mask}, {1, 140, 150, 4, 1, 24, mask}}) {
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
    const Inputs inputs({3, 300, 300, 4, 2, 40, mask});  // work for several threads
    test::expect_same_bits_for_any_threads(
        [&](const Host::Stream& stream) { return attend(stream, inputs).all(); });
  }
}

// A ring's hop: backward over some of the keys, with the lse and the output of all of them.
TEST(Attention, GradientsOverPartsOfTheKeysAddUp) {
  const Inputs inputs({1, 20, 48, 2, 2, 16, Mask::full});
  const Expected expected(inputs);
  Results whole(inputs.shape);
  test::forward(Host::Stream(1), inputs, whole);

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
    test::backward(Host::Stream(1), part, results);
    for (Index row = 0; row < 20; ++row) {
      for (Index c = 0; c < 32; ++c) dq(row, c) += double{results.dq(row, c)};
    }
    Reference dk(16, 32);
    for (Index row = 0; row < 16; ++row) {
      for (Index c = 0; c < 32; ++c) dk(row, c) = expected.dk(first + row, c);
    }
    EXPECT_LE(norm_error(results.dk, dk), rounding) << "keys from " << first;
  }
  test::backward(Host::Stream(1), inputs, whole);
  EXPECT_LE(norm_error(whole.dq, dq), rounding);
}

// With h = 2^-4 the central difference is wrong by h² and by the rounding of the loss over h: a few 1e-3.
TEST(Attention, GradientsAreFiniteDifferencesOfTheForwardPass) {
  Inputs inputs({1, 5, 7, 2, 1, 4, Mask::causal});
  const Results results = attend(Host::Stream(1), inputs);
  const auto loss = [&] {
    Results y(inputs.shape);
    test::forward(Host::Stream(1), inputs, y);
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
