// Attention over context ranks is exact: every policy and number of ranks against float64, with what
// every_combination_test.cc leaves out: several sequences, any dimension, padding, queries without keys. And
// what it refuses.
#include <cmath>
#include <cstddef>
#include <limits>
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

TYPED_TEST(ContextAttentionOf, RefusesLengthsThatDoNotDivide) {
  const auto said = [](int ranks, Index length) {
    return error_of([&] { attend_over<TypeParam>(ranks, AttentionInputs({1, length, length, 1, 1, 8})); });
  };
  EXPECT_THAT(said(4, 10), AllOf(HasSubstr("sequence length must be divisible by "), HasSubstr("it is 10")));
}

// Four heads over four ranks, which all can split.
template <class Policy>
class AnyContextAttention : public testing::Test {};
using AllPolicies =
    testing::Types<Attention<Ring>, Attention<Ring, Zigzag>, Attention<Ring, Striped>, Attention<AllGatherKv>,
                   Attention<AllGatherKv, Zigzag>, Attention<Ulysses>, Attention<Hybrid<2>, Zigzag>>;
TYPED_TEST_SUITE(AnyContextAttention, AllPolicies);

TYPED_TEST(AnyContextAttention, GivesTheSameBitsInEveryRun) {
  const AttentionInputs inputs({1, 96, 96, 4, 4, 16, causal, 1, 0, true});
  const std::vector<Tensor> one = attend_over<TypeParam>(4, inputs).results.all();
  const std::vector<Tensor> other = attend_over<TypeParam>(4, inputs).results.all();
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i] == other[i]) << i;
}

// The first queries, whose document has no keys. Nothing comes of them, and nothing is NaN.
const NamedMask nothing_for_some{"nothing for some", mask::documents({0, 4, 32}, {0, 0, 32})};

TYPED_TEST(AnyContextAttention, GivesZerosToQueriesThatSeeNoKey) {
  for (const float logits : {1.0f, 30.0f}) {
    for (const float soft_cap : {0.0f, 20.0f}) {
      const AttentionInputs inputs({1, 32, 32, 4, 4, 8, nothing_for_some, logits, soft_cap});
      const AttentionResults y = attend_over<TypeParam>(4, inputs).results;
      EXPECT_LE(worst_error(y, ExpectedAttention(inputs)), tolerance(logits));
      for (Index row = 0; row < 4; ++row) {
        for (Index h = 0; h < 4; ++h) EXPECT_EQ(y.lse(h, row), -std::numeric_limits<float>::infinity());
        for (Index c = 0; c < 32; ++c) {
          EXPECT_EQ(y.out(row, c), 0);
          EXPECT_EQ(y.dq(row, c), 0);
        }
      }
    }
  }
}

TYPED_TEST(AnyContextAttention, TakesASinkOfMinusInfinityForNone) {
  const AttentionInputs without({1, 32, 32, 4, 4, 8, nothing_for_some});
  AttentionInputs inputs({1, 32, 32, 4, 4, 8, nothing_for_some, 1, 0, true});
  for (Index h = 0; h < 4; ++h) inputs.sinks[h] = -std::numeric_limits<float>::infinity();
  const AttentionResults expected = attend_over<TypeParam>(4, without).results;
  const AttentionResults y = attend_over<TypeParam>(4, inputs).results;
  EXPECT_TRUE(y.out == expected.out);
  EXPECT_TRUE(y.lse == expected.lse);
  EXPECT_TRUE(y.dq == expected.dq);
  EXPECT_TRUE(y.dk == expected.dk);
  EXPECT_TRUE(y.dv == expected.dv);
  for (Index h = 0; h < 4; ++h) EXPECT_EQ(y.d_sinks[h], 0);
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

// What is said of a call whose arguments `change` has changed; one rank and all of its rows.
template <class Change>
std::string said_of_arguments(Change&& change) {
  struct Arguments {
    ops::AttentionSettings settings;
    Projections<float> x, dx;
    View<float, 4> out, d_out;
    View<float, 3> lse;
    Vector<float> d_sinks;
  };
  return error_of([&] {
    ThreadWorld world(1);
    world.run([&](ThreadRank& rank) {
      const Host::Stream stream;
      Host::Memory memory;
      ThreadCommunicator group = rank.group("context", {0});
      const ContextAttention<Attention<Ring>, Host, ThreadCommunicator> attention(
          {.sequence = 16, .heads = 4, .kv_heads = 2, .dimension = 8}, mask::causal(), group, memory, stream);
      std::vector<float> numbers(4096);  // enough for any of them
      const auto tensor = [&](Index heads) { return View<float, 4>(numbers.data(), {1, 16, heads, 8}); };
      const Projections<float> projections{tensor(4), tensor(2), tensor(2)};
      const Vector<float> sinks(numbers.data(), {4});
      Arguments a{.settings = {.sinks = sinks},
                  .x = projections,
                  .dx = projections,
                  .out = tensor(4),
                  .d_out = tensor(4),
                  .lse = {numbers.data(), {1, 4, 16}},
                  .d_sinks = sinks};
      change(a);
      attention.backward(stream, a.settings, a.x, a.out, a.lse, a.d_out, a.dx, {}, {}, a.d_sinks);
    });
  });
}

TEST(ContextAttention, RefusesTensorsThatAreNotOfItsRowsAndHeads) {
  const auto fewer = [](auto& x, int dimension) { x = x.slice(dimension, 0, x.extent(dimension) - 1); };
  const auto said = [&](auto member, int dimension) {
    return said_of_arguments([&](auto& a) { fewer(member(a), dimension); });
  };
  EXPECT_THAT(
      said(
          [](auto& a) -> auto& { return a.x.q; }, 1),
      HasSubstr("attention got q of (1, 15, 4, 8), not (1, 16, 4, 8); give a tensor of this rank's rows "
                "and of the heads that the attention was made with"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.x.k; }, 2),
              HasSubstr("k of (1, 16, 1, 8), not (1, 16, 2, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.x.v; }, 3),
              HasSubstr("v of (1, 16, 2, 7), not (1, 16, 2, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.out; }, 0),
              HasSubstr("out of (0, 16, 4, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.lse; }, 2),
              HasSubstr("lse of (1, 4, 15), not (1, 4, 16)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.d_out; }, 1),
              HasSubstr("d_out of (1, 15, 4, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.dx.q; }, 1),
              HasSubstr("dq of (1, 15, 4, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.dx.k; }, 1),
              HasSubstr("dk of (1, 15, 2, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.dx.v; }, 1),
              HasSubstr("dv of (1, 15, 2, 8)"));
  EXPECT_THAT(said(
                  [](auto& a) -> auto& { return a.d_sinks; }, 0),
              HasSubstr("d_sinks of (3), not (4)"));
}

TEST(ContextAttention, RefusesSettingsThatMakeNoSense) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto said = [](auto change) { return said_of_arguments([&](auto& a) { change(a.settings); }); };
  for (const float wrong : {-1.0f, infinity, std::nanf("")}) {
    EXPECT_THAT(said([&](auto& s) { s.soft_cap = wrong; }),
                HasSubstr("give a positive soft cap, or 0 for none"));
  }
  for (const float wrong : {0.0f, -0.25f, infinity, -infinity, std::nanf("")}) {
    EXPECT_THAT(said([&](auto& s) { s.scale = wrong; }), HasSubstr("give a positive, finite scale"));
  }
  EXPECT_THAT(
      said([](auto& s) { s.sinks = s.sinks.slice(0, 0, 3); }),
      HasSubstr("attention of 4 heads got 3 sinks; give each head of queries a sink, or none to all"));
}

}  // namespace
}  // namespace trilith::test
