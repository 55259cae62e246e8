// Attention's forward kernel on the emulator against float64.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "test/kernels/attention_case.hpp"
#include "test/kernels/attention_forward_case.hpp"

namespace trilith::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// What is expected where some queries are blind.
ExpectedAttention expected_of(const AttentionInputs& x, const ForwardOptions& options) {
  ExpectedAttention expected(x);
  const AttentionShape& s = x.shape;
  for (Index i = 0; i < s.queries; ++i) {
    if (!is_blind(options, i)) continue;
    for (Index b = 0; b < s.batch; ++b) {
      for (Index c = 0; c < x.q.columns(); ++c) expected.out(b * s.queries + i, c) = 0;
      for (Index h = 0; h < s.heads; ++h) {
        expected.lse(b * s.heads + h, i) = s.sinks ? double{x.sinks[h]} : -double{infinity};
      }
    }
  }
  return expected;
}

// As flash-attention's own tests have it: at most twice the error of attention that keeps scores and weights
// in memory, in 16 bits. lse comes from float32 alone.
template <half T>
void expect_attention(const AttentionShape& s, const ForwardOptions& options = {}) {
  SCOPED_TRACE(testing::Message() << s << ", " << options.hops << " hops, " << options.hops_on_host
                                  << " on the host");
  const AttentionInputs x = inputs_in<T>(s);
  const ExpectedAttention expected = expected_of(x, options);
  const UnfusedAttention<T> unfused(x);
  const ForwardResults y = forward_of<T>(x, options);
  EXPECT_LE(greatest_error(y.out, expected.out, y.out),
            2 * greatest_error(unfused.out, ExpectedAttention(x).out, y.out) + 1e-5);
  for (Index row = 0; row < y.lse.rows(); ++row) {
    for (Index i = 0; i < s.queries; ++i) {
      const double lse = expected.lse(row, i);
      if (lse == -double{infinity}) {
        ASSERT_EQ(y.lse(row, i), -infinity) << row << ", " << i;
      } else {
        ASSERT_NEAR(y.lse(row, i), lse, 1e-5 * std::max(1.0, std::abs(lse))) << row << ", " << i;
      }
    }
  }
}

template <half T>
class AttentionForward : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionForward, Halves);

const NamedMask window{"window", mask::sliding_window(70)};
// Hides the first keys of tiles all of whose other keys are seen.
const NamedMask wide_window{"wide window", mask::sliding_window(200)};
const NamedMask documents{"documents", mask::causal() & mask::documents({0, 3, 100, 101, 200})};

TYPED_TEST(AttentionForward, IsCloseToFloat64) {
  using T = TypeParam;
  expect_attention<T>({1, 128, 128, 1, 1, 64});
  expect_attention<T>({1, 200, 130, 2, 1, 64, causal});
  expect_attention<T>({2, 76, 130, 1, 1, 128});
  expect_attention<T>({1, 200, 200, 1, 1, 128, documents});
  expect_attention<T>({1, 200, 200, 1, 1, 256, causal});
  expect_attention<T>({1, 300, 300, 1, 1, 64, window});
  expect_attention<T>({1, 320, 320, 1, 1, 64, wide_window});
  expect_attention<T>({1, 320, 320, 1, 1, 128, wide_window});
  expect_attention<T>({1, 131, 333, 1, 1, 64, gap_of(131, 333)});
  expect_attention<T>({1, 131, 333, 1, 1, 128, gap_of(131, 333)}, {.hops = 2});
}

TYPED_TEST(AttentionForward, TakesARectangleAsWhatItIsOrAsIntervals) {
  for (const Index dimension : {64, 128, 256}) {
    const AttentionShape s{1, 200, 300, 1, 1, dimension, inner_rectangle(200, 300)};
    expect_attention<TypeParam>(s);
    expect_attention<TypeParam>(s, {.hops = 3});
    expect_attention<TypeParam>(s, {.intervals = true});
  }
  expect_attention<TypeParam>({1, 128, 128, 1, 1, 64}, {.intervals = true});
}

TYPED_TEST(AttentionForward, TakesDimensionsBetweenWidths) {
  using T = TypeParam;
  expect_attention<T>({1, 76, 130, 1, 1, 40, causal});
  expect_attention<T>({1, 76, 130, 2, 1, 72});
  expect_attention<T>({1, 70, 100, 1, 1, 200, causal});
  expect_attention<T>({1, 9, 1, 1, 1, 8});
}

TYPED_TEST(AttentionForward, ServesGroupsOfQueryHeads) {
  expect_attention<TypeParam>({2, 40, 70, 6, 2, 64, causal});
  expect_attention<TypeParam>({1, 40, 70, 4, 1, 128});
}

TYPED_TEST(AttentionForward, CapsScoresAndCountsSinks) {
  using T = TypeParam;
  expect_attention<T>({.batch = 1,
                       .queries = 76,
                       .keys = 130,
                       .heads = 2,
                       .kv_heads = 1,
                       .dimension = 64,
                       .mask = causal,
                       .logits = 8,
                       .soft_cap = 5,
                       .sinks = true});
  expect_attention<T>({.batch = 1,
                       .queries = 76,
                       .keys = 76,
                       .heads = 2,
                       .kv_heads = 1,
                       .dimension = 128,
                       .logits = 3,
                       .soft_cap = 50});
  expect_attention<T>({.batch = 1,
                       .queries = 76,
                       .keys = 76,
                       .heads = 2,
                       .kv_heads = 2,
                       .dimension = 64,
                       .mask = window,
                       .sinks = true});
}

TYPED_TEST(AttentionForward, TakesLargeLogits) {
  using T = TypeParam;
  expect_attention<T>({.batch = 1,
                       .queries = 100,
                       .keys = 260,
                       .heads = 1,
                       .kv_heads = 1,
                       .dimension = 64,
                       .mask = causal,
                       .logits = 30});
  expect_attention<T>(
      {.batch = 1, .queries = 100, .keys = 260, .heads = 1, .kv_heads = 1, .dimension = 128, .logits = 30});
}

TYPED_TEST(AttentionForward, GivesNothingToQueriesWithoutKeys) {
  using T = TypeParam;
  expect_attention<T>({1, 200, 76, 1, 1, 64, causal});  // of the first queries on
  expect_attention<T>({1, 76, 1, 1, 1, 64, causal});
  expect_attention<T>({1, 200, 200, 1, 1, 64, causal}, {.blind = 3});
  expect_attention<T>({1, 130, 200, 1, 1, 128}, {.hops = 2, .blind = 2});
  expect_attention<T>({.batch = 1,
                       .queries = 200,
                       .keys = 76,
                       .heads = 2,
                       .kv_heads = 1,
                       .dimension = 64,
                       .mask = causal,
                       .sinks = true},
                      {.blind = 5});
}

TYPED_TEST(AttentionForward, ReadsNoKeysBeyondTheLastSeen) {
  expect_attention<TypeParam>({1, 40, 100, 1, 1, 64}, {.keys_of_nobody = 60});
  expect_attention<TypeParam>({1, 40, 100, 1, 1, 128, causal}, {.keys_of_nobody = 60});
}

TYPED_TEST(AttentionForward, CarriesFromHopToHop) {
  using T = TypeParam;
  expect_attention<T>({1, 200, 256, 1, 1, 64, causal}, {.hops = 2});
  expect_attention<T>({1, 200, 200, 2, 1, 64, documents}, {.hops = 4});
  expect_attention<T>({.batch = 2,
                       .queries = 76,
                       .keys = 200,
                       .heads = 2,
                       .kv_heads = 1,
                       .dimension = 72,
                       .mask = causal,
                       .logits = 6,
                       .soft_cap = 9,
                       .sinks = true},
                      {.hops = 4});
  expect_attention<T>({1, 76, 200, 1, 1, 256, causal}, {.hops = 4});
}

TYPED_TEST(AttentionForward, GoesOnFromTheHostsCarry) {
  using T = TypeParam;
  expect_attention<T>({1, 200, 256, 2, 1, 64, causal}, {.hops = 4, .hops_on_host = 2});
  expect_attention<T>({.batch = 1,
                       .queries = 76,
                       .keys = 200,
                       .heads = 2,
                       .kv_heads = 1,
                       .dimension = 128,
                       .mask = causal,
                       .logits = 6,
                       .soft_cap = 9,
                       .sinks = true},
                      {.hops = 2, .hops_on_host = 1});
}

TYPED_TEST(AttentionForward, DoesNotLoseByHops) {
  using T = TypeParam;
  const AttentionInputs x = inputs_in<T>({1, 128, 512, 1, 1, 64, full, 2});
  const ExpectedAttention expected(x);
  const auto error = [&](int hops) {
    const ForwardResults y = forward_of<T>(x, {.hops = hops});
    return norm_error(y.out, expected.out);
  };
  EXPECT_LE(error(8), 1.2 * error(1));
}

TYPED_TEST(AttentionForward, IsTheSameInEveryOrderAndLanding) {
  using T = TypeParam;
  const AttentionInputs x = inputs_in<T>({.batch = 1,
                                          .queries = 200,
                                          .keys = 200,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .dimension = 64,
                                          .mask = documents,
                                          .soft_cap = 20,
                                          .sinks = true});
  for (const int hops : {1, 2}) {
    const ForwardResults first = forward_of<T>(x, {.hops = hops});
    for (const std::uint64_t seed : {1, 2, 3}) {
      for (const auto landing : {simt::Landing::at_once, simt::Landing::late}) {
        const ForwardResults y =
            forward_of<T>(x, {.emulation = {.seed = seed, .landing = landing}, .hops = hops});
        EXPECT_EQ(y.out, first.out);
        EXPECT_EQ(y.lse, first.lse);
        EXPECT_EQ(y.counters, first.counters);
      }
    }
  }
}

}  // namespace
}  // namespace trilith::test
