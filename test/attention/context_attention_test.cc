// Attention over context ranks is exact: every policy, number of ranks, mask and kind of score against
// float64.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/attention/context_attention.hpp>
#include <trilith/attention/policy.hpp>
#include <trilith/mask/mask.hpp>

#include "test/attention/context.hpp"
#include "test/support/files.hpp"

namespace trilith::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Sums of some hundred products in float32; scores of 100 are rounded by 6e-6 a few times.
double tolerance(float logits) {
  return logits > 1 ? 3e-5 : 1e-5;
}

std::vector<NamedMask> masks(Index length) {
  return {full,
          causal,
          {"window", mask::sliding_window(length / 3)},
          {"window on both sides", mask::sliding_window(5, 9)},
          {"causal documents", mask::documents({0, 1, length / 3, length - 2, length}) & mask::causal()},
          {"window in documents",
           mask::documents({0, length / 2 + 3, length}) & mask::sliding_window(length / 4, 2)}};
}

template <class Policy>
void expect_exact(int ranks, const AttentionShape& shape, Padding padding = Padding::no) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << shape);
  const AttentionInputs inputs(shape);
  EXPECT_LE(worst_error(attend_over<Policy>(ranks, inputs, padding).results, ExpectedAttention(inputs)),
            tolerance(shape.logits));
}

template <class Policy>
class ContextAttentionOf : public testing::Test {};
using Policies = testing::Types<Attention<Ring>, Attention<Ring, Zigzag>, Attention<Ring, Striped>,
                                Attention<AllGatherKv>, Attention<AllGatherKv, Zigzag>>;
TYPED_TEST_SUITE(ContextAttentionOf, Policies);

TYPED_TEST(ContextAttentionOf, EqualsTheReferenceForEveryMask) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const Index length = 8 * ranks;
    for (const NamedMask& mask : masks(length)) {
      expect_exact<TypeParam>(ranks, {2, length, length, 4, 2, 16, mask});
    }
  }
}

TYPED_TEST(ContextAttentionOf, EqualsTheReferenceForEveryKindOfScore) {
  for (const int ranks : {2, 3, 8}) {
    const Index length = 160 / (2 * ranks) * 2 * ranks;
    for (const float logits : {0.1f, 1.0f, 30.0f}) {
      for (const float soft_cap : {0.0f, 20.0f}) {
        for (const bool sinks : {false, true}) {
          expect_exact<TypeParam>(ranks, {1, length, length, 2, 1, 8, causal, logits, soft_cap, sinks});
        }
      }
    }
  }
}

TYPED_TEST(ContextAttentionOf, HasAnyHeadDimensionAndGroupOfHeads) {
  for (const Index dimension : {8, 24, 64, 256}) {
    expect_exact<TypeParam>(4, {1, 64, 64, 3, 3, dimension, causal});
  }
  expect_exact<TypeParam>(4, {1, 64, 64, 6, 2, 16, causal});
  expect_exact<TypeParam>(4, {1, 64, 64, 6, 1, 16, causal});
}

TYPED_TEST(ContextAttentionOf, PadsWhereAsked) {
  for (const int ranks : {2, 3, 8}) {
    for (const Index length : {Index{1}, Index{2 * ranks - 1}, Index{8 * ranks + 3}}) {
      for (const NamedMask& mask : {full, causal}) {
        expect_exact<TypeParam>(ranks, {2, length, length, 2, 2, 8, mask}, Padding::yes);
      }
    }
  }
}

TYPED_TEST(ContextAttentionOf, GivesTheSameBitsInEveryRun) {
  const AttentionInputs inputs({1, 96, 96, 2, 2, 16, causal, 1, 0, true});
  const AttentionResults one = attend_over<TypeParam>(4, inputs).results;
  const AttentionResults other = attend_over<TypeParam>(4, inputs).results;
  for (std::size_t i = 0; i < one.all().size(); ++i) EXPECT_TRUE(one.all()[i] == other.all()[i]) << i;
}

TYPED_TEST(ContextAttentionOf, RefusesLengthsThatDoNotDivide) {
  const auto said = [](int ranks, Index length) {
    return error_of([&] { attend_over<TypeParam>(ranks, AttentionInputs({1, length, length, 1, 1, 8})); });
  };
  EXPECT_THAT(said(4, 10), AllOf(HasSubstr("sequence length must be divisible by "), HasSubstr("it is 10")));
}

// Rows without keys: nothing comes of them, and nothing is NaN.
TYPED_TEST(ContextAttentionOf, GivesZerosToQueriesThatSeeNoKey) {
  const AttentionShape shape{
      1, 32, 32, 2, 2, 8, {"nothing for some", mask::documents({0, 4, 32}, {0, 0, 32})}};
  const AttentionInputs inputs(shape);
  const AttentionResults y = attend_over<TypeParam>(4, inputs).results;
  EXPECT_LE(worst_error(y, ExpectedAttention(inputs)), tolerance(1));
  for (Index row = 0; row < 4; ++row) {
    EXPECT_EQ(y.lse(0, row), -std::numeric_limits<float>::infinity());
    for (Index c = 0; c < 16; ++c) {
      EXPECT_EQ(y.out(row, c), 0);
      EXPECT_EQ(y.dq(row, c), 0);
    }
  }
}

// Where heads divide: Ulysses, and Ulysses inside a ring.
template <class Policy>
void expect_exact_with_heads(const std::vector<int>& ranks, Index heads, Index kv_heads) {
  for (const int p : ranks) {
    const Index length = 8 * p;
    for (const NamedMask& mask : masks(length)) {
      expect_exact<Policy>(p, {2, length, length, heads, kv_heads, 16, mask, 1, 0, true});
    }
    for (const float logits : {0.1f, 30.0f}) {
      expect_exact<Policy>(p, {1, length, length, heads, kv_heads, 8, causal, logits, 20, true});
    }
    expect_exact<Policy>(p, {1, length - 3, length - 3, heads, kv_heads, 8, causal}, Padding::yes);
  }
}

TEST(Ulysses, EqualsTheReference) {
  expect_exact_with_heads<Attention<Ulysses>>({1, 2, 4}, 8, 4);
  expect_exact_with_heads<Attention<Ulysses>>({3}, 6, 3);
  expect_exact_with_heads<Attention<Ulysses>>({5}, 5, 5);
  expect_exact_with_heads<Attention<Ulysses>>({8}, 8, 8);
}

TEST(Hybrid, EqualsTheReference) {
  expect_exact_with_heads<Attention<Hybrid<2>, Zigzag>>({2, 4, 6, 8}, 4, 2);
  expect_exact_with_heads<Attention<Hybrid<2>>>({4}, 4, 2);
  expect_exact_with_heads<Attention<Hybrid<4>, Striped>>({8}, 4, 4);
  expect_exact_with_heads<Attention<Hybrid<1>, Zigzag>>({3}, 3, 1);
}

TEST(Ulysses, RefusesHeadsThatDoNotDivide) {
  const auto said = [](int ranks, Index heads, Index kv_heads) {
    return error_of([&] {
      attend_over<Attention<Ulysses>>(ranks, AttentionInputs({1, 40, 40, heads, kv_heads, 8}));
    });
  };
  EXPECT_THAT(said(4, 6, 6), AllOf(HasSubstr("6 heads with 6 key/value heads"),
                                   HasSubstr("cannot exchange heads for rows among 4 ranks")));
  EXPECT_THAT(said(4, 8, 2), HasSubstr("cannot exchange heads for rows among 4 ranks"));
  EXPECT_THAT(error_of([] {
                attend_over<Attention<Hybrid<2>>>(3, AttentionInputs({1, 48, 48, 4, 4, 8}));
              }),
              HasSubstr("with Attention<Hybrid<U>> U divides CP"));
  EXPECT_THAT(error_of([] {
                attend_over<Attention<Local>>(2, AttentionInputs({1, 48, 48, 4, 4, 8}));
              }),
              HasSubstr("Attention<Local> takes one"));
}

}  // namespace
}  // namespace trilith::test
