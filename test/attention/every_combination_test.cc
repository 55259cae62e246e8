// Exactness as it is promised: every policy, number of ranks, mask, grouping of heads, scale of scores, soft
// cap and sink with every other, each on numbers of its own, against float64.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>
#include <trilith/mask/mask.hpp>

#include "test/attention/context.hpp"

namespace trilith::test {
namespace {

struct Heads {
  Index queries, keys;
};

// The greatest relative error of out, lse, dq, dk and dv, of norms; that of the sinks' gradients, each a
// small difference of large sums, is taken as a part of the values' gradients.
double strict_error(const AttentionResults& y, const ExpectedAttention& expected) {
  return std::max({norm_error(y.out, expected.out), norm_error(y.lse, expected.lse),
                   norm_error(y.dq, expected.dq), norm_error(y.dk, expected.dk),
                   norm_error(y.dv, expected.dv),
                   norm_error(y.d_sinks, expected.d_sinks, norm(expected.dv, y.dv))});
}

class EveryCombination : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }

  // Divisible by twice the ranks.
  Index length() const { return 64 / (2 * ranks()) * 2 * ranks(); }

  std::vector<NamedMask> masks() const {
    const Index n = length();
    return {full,
            causal,
            {"window", mask::sliding_window(n / 3)},
            {"window on both sides", mask::sliding_window(5, 9)},
            {"causal documents", mask::documents({0, 1, n / 3, n - 2, n}) & mask::causal()},
            {"window in documents", mask::documents({0, n / 2 + 3, n}) & mask::sliding_window(n / 4, 2)}};
  }

  // Calls check(inputs, expected, tolerance) for each mask with each kind of score.
  template <class Check>
  void for_each_case(const std::vector<Heads>& groupings, Check&& check) {
    for (const Heads& heads : groupings) {
      for (const NamedMask& mask : masks()) {
        for (const float logits : {0.1f, 1.0f, 30.0f}) {
          for (const float soft_cap : {0.0f, 20.0f}) {
            for (const bool sinks : {false, true}) {
              const AttentionShape shape{.batch = 1,
                                         .queries = length(),
                                         .keys = length(),
                                         .heads = heads.queries,
                                         .kv_heads = heads.keys,
                                         .dimension = 8,
                                         .mask = mask,
                                         .logits = logits,
                                         .soft_cap = soft_cap,
                                         .sinks = sinks};
              const AttentionInputs inputs(shape, ++seed_);
              // Sums of some hundred products in float32; scores of 100 are rounded by 6e-6 a few times.
              check(inputs, ExpectedAttention(inputs), logits > 1 ? 3e-5 : 1e-5);
            }
          }
        }
      }
    }
  }

  template <class... Policies>
  void expect_exact(const std::vector<Heads>& groupings) {
    for_each_case(groupings,
                  [&](const AttentionInputs& inputs, const ExpectedAttention& expected, double tolerance) {
                    const std::vector<double> errors{
                        strict_error(attend_over<Policies>(ranks(), inputs).results, expected)...};
                    for (std::size_t policy = 0; policy < errors.size(); ++policy) {
                      EXPECT_LE(errors[policy], tolerance)
                          << "policy " << policy << " of this test, seed " << seed_ << ", " << inputs.shape;
                    }
                  });
  }

 private:
  std::uint64_t seed_ = 0;
};

TEST_P(EveryCombination, OfRingsAndGatheredKeysIsExact) {
  expect_exact<Attention<Ring>, Attention<Ring, Zigzag>, Attention<Ring, Striped>, Attention<AllGatherKv>,
               Attention<AllGatherKv, Zigzag>, Attention<AllGatherKv, Striped>>({{2, 2}, {6, 2}, {3, 1}});
}

// A key head for each rank, and one key head for several of queries.
TEST_P(EveryCombination, OfExchangedHeadsIsExact) {
  expect_exact<Attention<Ulysses>>({{ranks(), ranks()}, {2 * ranks(), ranks()}});
}

TEST_P(EveryCombination, OfExchangedHeadsInARingIsExact) {
  if (ranks() % 2 == 0) {
    expect_exact<Attention<Hybrid<2>>, Attention<Hybrid<2>, Zigzag>, Attention<Hybrid<2>, Striped>>(
        {{2, 2}, {6, 2}});
  } else {
    expect_exact<Attention<Hybrid<1>, Zigzag>>({{2, 2}, {3, 1}});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryCombination, testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace trilith::test
