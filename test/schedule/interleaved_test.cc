// Interleaved 1F1B: programs, conditions and figures. Figures without another source are simulated, and agree
// with the closed forms of Narayanan et al., SC 2021: warm-up min(2(p − 1 − r) + (V − 1)·N, mV), makespan
// 3(mV + p − 1) in unit costs, bubble (p − 1)/(Vm + p − 1).
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"

namespace trilith {
namespace {

using schedule::refusal;
using schedule::simulate;
using schedule::test::expect_closed_forms;
using schedule::test::for_each_size;
using schedule::test::peaks;
using schedule::test::to_text;

static_assert(schedule_policy<Interleaved<2>>);

static_assert(simulate<Interleaved<2>>(2, 4).makespan == 27);
static_assert(simulate<Interleaved<2>>(2, 4).bubble() == Ratio{1, 9});
static_assert(simulate<Interleaved<2>>(2, 4).bubble_of_ideal() == Ratio{1, 8});
static_assert(simulate<Interleaved<2>>(4, 8).makespan == 57);
static_assert(simulate<Interleaved<2>>(4, 8).bubble() == Ratio{3, 19});

TEST(Interleaved, OfTwoRanksAndFourMicrobatches) {
  EXPECT_EQ(to_text(Interleaved<2>::program(0, 2, 4)),
            "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  EXPECT_EQ(to_text(Interleaved<2>::program(1, 2, 4)),
            "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
  EXPECT_EQ(peaks<Interleaved<2>>(2, 4), (std::vector{5, 3}));
}

TEST(Interleaved, PlacesStageKTimesPPlusROnRankR) {
  static_assert(Interleaved<3>::stage_of(1, 0, 4) == 1);
  static_assert(Interleaved<3>::stage_of(1, 2, 4) == 9);
}

TEST(Interleaved, WarmsUpUntilTheFirstGradientComesBackToItsLastChunk) {
  const auto warm_ups = []<class Policy>(int ranks, int microbatches) {
    std::vector<int> found;
    for (int rank = 0; rank < ranks; ++rank) {
      const schedule::Program program = Policy::program(rank, ranks, microbatches);
      const auto first = std::find_if(program.begin(), program.end(), [](const schedule::Action& a) {
        return a.pass == schedule::Pass::backward;
      });
      // The last of the forwards before the first backward belongs to a pair.
      const int forwards = static_cast<int>(first - program.begin());
      found.push_back(forwards == microbatches * Policy::chunks ? forwards : forwards - 1);
      EXPECT_EQ(Policy::warm_up(rank, ranks, microbatches), found.back());
    }
    return found;
  };
  EXPECT_EQ(warm_ups.operator()<Interleaved<2>>(2, 4), (std::vector{4, 2}));
  EXPECT_EQ(warm_ups.operator()<Interleaved<2>>(4, 8), (std::vector{10, 8, 6, 4}));
}

TEST(Interleaved, OfOneChunkIsOneFOneBWithLongerWarmUp) {
  EXPECT_EQ(to_text(Interleaved<1>::program(1, 2, 4)), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(to_text(Interleaved<1>::program(0, 2, 4)), "F0 F1 F2 B0 F3 B1 B2 B3");
}

// rank 0 holds Vp + p − 1 chunks for N = p and m ≥ 2p.
TEST(Interleaved, HoldsAsManyChunksAsItsWarmUpAndOneMore) {
  EXPECT_EQ(peaks<Interleaved<2>>(4, 8), (std::vector{11, 9, 7, 5}));
  EXPECT_EQ((peaks<Interleaved<2, 6>>(4, 6)), (std::vector{12, 11, 9, 7}));
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int microbatches = 2 * ranks; microbatches <= 64; microbatches += ranks) {
      EXPECT_EQ(peaks<Interleaved<3>>(ranks, microbatches)[0], 3 * ranks + ranks - 1);
    }
  }
}

template <class Policy>
class InterleavedOf : public testing::Test {};
using Policies = testing::Types<Interleaved<1>, Interleaved<2>, Interleaved<3>, Interleaved<4>,
                                Interleaved<2, 4>, Interleaved<2, 6>, Interleaved<3, 16>, Interleaved<4, 5>>;
TYPED_TEST_SUITE(InterleavedOf, Policies);

TYPED_TEST(InterleavedOf, TakesThreeTimesMVPlusPMinusOne) {
  expect_closed_forms<TypeParam>();
  for_each_size<TypeParam>([](int ranks, int microbatches) {
    const int chunks = microbatches * TypeParam::chunks;
    EXPECT_EQ(TypeParam::makespan(ranks, microbatches), 3 * (chunks + ranks - 1));
    EXPECT_EQ(simulate<TypeParam>(ranks, microbatches).bubble(), (Ratio{ranks - 1, chunks + ranks - 1}));
    for (int rank = 0; rank < ranks; ++rank) {
      const int warm_up = 2 * (ranks - 1 - rank) + (TypeParam::chunks - 1) * TypeParam::group(ranks);
      EXPECT_EQ(TypeParam::warm_up(rank, ranks, microbatches), std::min(warm_up, chunks));
      EXPECT_EQ(TypeParam::peak_in_flight(rank, ranks, microbatches), std::min(warm_up + 1, chunks));
    }
  });
}

// (p − 1)(F + I + W) of one chunk: a V-th of what 1F1B is idle, whose one chunk has V times the work.
TYPED_TEST(InterleavedOf, IsIdleAVthOfTheTimeOfOneFOneBWithAnyCosts) {
  for (const schedule::Cost& cost : schedule::test::uneven_costs) {
    constexpr int V = TypeParam::chunks;
    const schedule::Cost whole{.forward = V * cost.forward,
                               .backward_input = V * cost.backward_input,
                               .backward_weight = V * cost.backward_weight};
    for_each_size<TypeParam>([&](int ranks, int microbatches) {
      const schedule::Time idle = schedule::test::idle<TypeParam>(ranks, microbatches, cost);
      EXPECT_EQ(idle, (ranks - 1) * schedule::test::work(cost));
      EXPECT_EQ(V * idle, schedule::test::idle<OneFOneB>(ranks, microbatches, whole));
    });
  }
}

// p > 1, p ≤ N ≤ m, and m mod N is 0 or at least p.
TYPED_TEST(InterleavedOf, HasAProgramWhereItsGroupsFit) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int microbatches = 1; microbatches <= 64; ++microbatches) {
      const int n = TypeParam::group(ranks);
      const bool fits = ranks > 1 && ranks <= n && n <= microbatches &&
                        (microbatches % n == 0 || microbatches % n >= ranks);
      EXPECT_EQ(refusal<TypeParam>(ranks, microbatches) == nullptr, fits)
          << "p=" << ranks << ", m=" << microbatches;
    }
  }
}

TEST(Interleaved, SaysWhyItRefuses) {
  EXPECT_STREQ((refusal<Interleaved<2>>(1, 4)),
               "Interleaved: one pipeline rank has nothing to interleave; use OneFOneB");
  EXPECT_STREQ((refusal<Interleaved<2, 3>>(4, 6)),
               "Interleaved: a group must have at least p microbatches, or its first comes back too late");
  EXPECT_STREQ((refusal<Interleaved<2>>(4, 3)),
               "Interleaved: there must be at least one whole group of N (or p) microbatches");
  EXPECT_STREQ(
      (refusal<Interleaved<2, 4>>(4, 6)),
      "Interleaved: m must be a multiple of N (or p), or leave a last group of at least p microbatches");
  EXPECT_STREQ(
      (refusal<Interleaved<3, 4>>(4, 5)),
      "Interleaved: m must be a multiple of N (or p), or leave a last group of at least p microbatches");
  EXPECT_STREQ((refusal<Interleaved<2>>(0, 4)), "a pipeline has at least one rank");
  EXPECT_STREQ((refusal<Interleaved<2>>(4, 0)), "a step has at least one microbatch");
}

// What it refuses is slower than it promises, or waits for ever; a fitting N or m is right.
TEST(Interleaved, RefusesWithReason) {
  EXPECT_EQ((simulate<Interleaved<2, 4>>(4, 6).makespan), 55);
  EXPECT_EQ((simulate<Interleaved<2, 6>>(4, 6).makespan), 45);
  EXPECT_FALSE((simulate<Interleaved<3, 4>>(4, 5).complete));
  for (const int microbatches : {4, 8}) {
    EXPECT_EQ((refusal<Interleaved<2, 4>>(4, microbatches)), nullptr) << microbatches;
  }
}

}  // namespace
}  // namespace trilith
