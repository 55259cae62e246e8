#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/mask/mask.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/attention.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::attend;
using test::causal;
using test::full;
using test::NamedMask;
using test::norm_error;
using test::Reference;
using test::Tensor;
using Expected = test::ExpectedAttention;
using Inputs = test::AttentionInputs;
using Results = test::AttentionResults;
using Shape = test::AttentionShape;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Sums of up to 500 products in float32.
constexpr double rounding = 1e-5;
// A score of 100 is rounded by 100 · 2^-24 = 6e-6 a few times, and its weight by as much, relatively.
constexpr double rounding_of_large_logits = 3e-5;

void expect_near(const Results& actual, const Expected& expected, double tolerance) {
  EXPECT_LE(norm_error(actual.out, expected.out), tolerance);
  EXPECT_LE(norm_error(actual.lse, expected.lse), tolerance);
  EXPECT_LE(norm_error(actual.dv, expected.dv), tolerance);
  // Where every query sees one key, the gradients of q and k are 0: a difference of equal terms.
  const double floor = test::norm(expected.dv, actual.dv) / 10;
  EXPECT_LE(norm_error(actual.dq, expected.dq, floor), tolerance);
  EXPECT_LE(norm_error(actual.dk, expected.dk, floor), tolerance);
  EXPECT_LE(norm_error(actual.d_sinks, expected.d_sinks, floor), tolerance);  // of none: 0
}

const std::vector<NamedMask>& masks() {
  static const std::vector<NamedMask> masks{
      full,
      causal,
      {"window of 1", mask::sliding_window(0)},
      {"window of 20", mask::sliding_window(19)},
      {"window of 150", mask::sliding_window(149)},
      {"window on both sides", mask::sliding_window(30, 70)},
      {"documents", mask::documents({0, 1, 40, 40, 170, 171, 300})},
      {"causal documents", mask::documents({0, 1, 40, 40, 170, 171, 300}) & mask::causal()},
      {"window in documents", mask::documents({0, 129, 300}) & mask::sliding_window(47)}};
  return masks;
}

// Every mask with every kind of score: skipping blocks must not lose or leave a key.
TEST(Attention, EqualsTheReferenceForEveryMask) {
  for (const NamedMask& mask : masks()) {
    for (const float soft_cap : {0.0f, 2.0f}) {
      for (const bool sinks : {false, true}) {
        const Shape shape{1, 300, 300, 2, 1, 24, mask, 1, soft_cap, sinks};
        SCOPED_TRACE(shape);
        const Inputs inputs(shape);
        expect_near(attend(Host::Stream(2), inputs), Expected(inputs), rounding);
      }
    }
  }
}

TEST(Attention, WithASoftCapAndSinksEqualsTheReferenceForSmallAndLargeLogits) {
  for (const float logits : {0.1f, 1.0f, 30.0f}) {
    for (const float soft_cap : {1.0f, 50.0f}) {
      const Shape shape{1, 150, 150, 2, 2, 64, causal, logits, soft_cap, true};
      SCOPED_TRACE(shape);
      const Inputs inputs(shape);
      expect_near(attend(Host::Stream(1), inputs), Expected(inputs),
                  logits > 1 ? rounding_of_large_logits : rounding);
    }
  }
}

TEST(Attention, AlignsDocumentsOfDifferentLengthsEachAtItsEnd) {
  const NamedMask mask{"76/34/146 queries, 1/1/1 keys",
                       mask::documents({0, 76, 110, 256}, {0, 1, 2, 3}) & mask::causal()};
  const Inputs inputs({1, 256, 3, 2, 2, 16, mask});
  const Results results = attend(Host::Stream(1), inputs);
  expect_near(results, Expected(inputs), rounding);
  for (const Index row : {0, 74, 76, 108, 110, 254}) EXPECT_EQ(results.dq(row, 0), 0) << row;
  for (const Index row : {75, 109, 255}) EXPECT_TRUE(std::isfinite(results.lse(0, row))) << row;
}

// The keys come in several hops, in any order, and the carry lies in memory between them.
TEST(Attention, InHopsEqualsAttentionToAllKeys) {
  for (const bool sinks : {false, true}) {
    for (const float logits : {1.0f, 30.0f}) {
      const Shape shape{2, 140, 240, 4, 2, 40, {"window", mask::sliding_window(130, 20)}, logits, 0, sinks};
      SCOPED_TRACE(shape);
      const Inputs inputs(shape);
      const Expected expected(inputs);
      const BoundMask bound = shape.mask.mask.of(shape.queries, shape.keys);
      Results y(shape);
      const test::Extent rows{shape.batch * shape.queries, shape.heads * shape.dimension, 9};
      Tensor carried(rows);
      Tensor maximum({shape.batch * shape.heads, shape.queries});
      Tensor sum({shape.batch * shape.heads, shape.queries});
      const ops::AttentionCarry carry{test::heads_of(carried, shape.batch, shape.dimension),
                                      test::per_query(maximum, shape), test::per_query(sum, shape)};
      constexpr Index hops = 4;
      constexpr Index part = 60;
      Reference dq(rows.rows, rows.columns);
      Tensor hop_dq(rows);
      const auto each_hop = [&](auto&& body) {
        for (Index hop = 0; hop < hops; ++hop) {
          const Index from = (hop * 3 + 2) % hops * part;  // in no order
          std::vector<std::int32_t> first, last;
          for (Index i = 0; i < shape.queries; ++i) {
            const KeyInterval keys = bound.keys_of(i);
            first.push_back(static_cast<std::int32_t>(std::clamp<Index>(keys.first - from, 0, part)));
            last.push_back(static_cast<std::int32_t>(std::clamp<Index>(keys.last - from, 0, part)));
          }
          const auto keys_of = [&](auto& x) {
            return test::heads_of(x, shape.batch, shape.dimension).slice(1, from, part);
          };
          body(hop, keys_of, ops::KeyRanges{{first.data(), {shape.queries}}, {last.data(), {shape.queries}}});
        }
      };
      const auto whole = [&](auto& x) { return test::heads_of(x, shape.batch, shape.dimension); };
      each_hop([&](Index hop, auto keys_of, const ops::KeyRanges& ranges) {
        ops::attention(Host::Stream(2), whole(inputs.q), keys_of(inputs.k), keys_of(inputs.v),
                       inputs.settings(), ranges, {.first = hop == 0, .last = hop == hops - 1}, carry,
                       whole(y.out), test::per_query(y.lse, shape));
      });
      ops::attention_delta(Host::Stream(2), whole(y.out), whole(inputs.d_out),
                           test::per_query(y.delta, shape));
      each_hop([&](Index hop, auto keys_of, const ops::KeyRanges& ranges) {
        ops::attention_backward(Host::Stream(2), whole(inputs.q), keys_of(inputs.k), keys_of(inputs.v),
                                test::per_query(y.lse, shape), test::per_query(y.delta, shape),
                                whole(inputs.d_out), inputs.settings(), ranges,
                                {.first = hop == 0, .last = hop == hops - 1}, View<float, 4>(), whole(y.dq),
                                keys_of(y.dk), keys_of(y.dv));
      });
      ops::attention_sinks_backward(Host::Stream(1), test::per_query(y.lse, shape),
                                    test::per_query(y.delta, shape), inputs.settings(), Accumulate::no,
                                    y.d_sinks.vector());
      expect_near(y, expected, logits > 1 ? rounding_of_large_logits : rounding);
      EXPECT_TRUE(carried.padding_untouched());
    }
  }
}

TEST(Attention, EqualsTheReferenceForEverySize) {
  for (const NamedMask& mask : {full, causal}) {
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
  for (const NamedMask& mask : {full, causal}) {
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
  for (const NamedMask& mask : {full, causal}) {
    for (const Shape& shape :
         std::vector<Shape>{{2, 70, 70, 6, 2, 32, mask}, {1, 140, 150, 4, 1, 24, mask}}) {
      SCOPED_TRACE(shape);
      const Inputs inputs(shape);
      expect_near(attend(Host::Stream(3), inputs), Expected(inputs), rounding);
    }
  }
}

TEST(Attention, AlignsACausalMaskAtTheLastQueryAndTheLastKey) {
  const Inputs inputs({1, 2, 5, 1, 1, 8, causal});
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
    const Inputs inputs({1, queries, keys, 2, 2, 16, causal});
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
  for (const NamedMask& mask : {full, causal}) {
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
  const Results results = attend(Host::Stream(2), Inputs({2, 37, 37, 2, 2, 20, causal}));
  for (const Tensor& tensor : results.all()) EXPECT_TRUE(tensor.padding_untouched());
}

TEST(Attention, GivesTheSameBitsForAnyThreads) {
  for (const NamedMask& mask : {full, causal}) {
    const Inputs inputs({3, 300, 300, 4, 2, 40, mask});  // work for several threads
    test::expect_same_bits_for_any_threads(
        [&](const Host::Stream& stream) { return attend(stream, inputs).all(); });
  }
}

// With h = 2^-4 the central difference is wrong by h² and by the rounding of the loss over h: a few 1e-3.
TEST(Attention, GradientsAreFiniteDifferencesOfTheForwardPass) {
  for (const float soft_cap : {0.0f, 1.5f}) {
    for (const bool sinks : {false, true}) {
      Inputs inputs({1, 5, 7, 2, 1, 4, causal, 1, soft_cap, sinks});
      SCOPED_TRACE(inputs.shape);
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
      EXPECT_LE(norm_error(results.d_sinks, differences(inputs.sinks)), 5e-3);  // of none: 0
    }
  }
}

}  // namespace
}  // namespace trilith
