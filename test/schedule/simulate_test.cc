// The simulator: by hand, against closed forms, and what it says of programs that wait for ever.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"
#include "test/schedule/user_policies.hpp"

namespace trilith::schedule::test {
namespace {

using trilith::test::EagerOneFOneB;
using trilith::test::SplitOneFOneB;

// In both conventions: (p − 1)/(m + p − 1) and (p − 1)/m.
static_assert(simulate<OneFOneB>(8, 64).bubble() == Ratio{7, 71});
static_assert(simulate<OneFOneB>(8, 64).bubble_of_ideal() == Ratio{7, 64});
static_assert(simulate<OneFOneB>(4, 4).bubble() == Ratio{3, 7});
static_assert(simulate<GPipe>(4, 4).bubble() == Ratio{3, 7});
static_assert(simulate<GPipe>(4, 4).bubble_of_ideal() == Ratio{3, 4});
static_assert(simulate<OneFOneB>(8, 32).bubble() == Ratio{7, 39});
static_assert(simulate<OneFOneB>(4, 6).makespan == 27);
static_assert(simulate<OneFOneB>(1, 5).bubble() == Ratio{0, 1});

std::vector<Time> starts(const Simulation& s, int rank) {
  std::vector<Time> found;
  for (const Span& span : s.timeline[rank]) found.push_back(span.start);
  return found;
}

// Rank 1 cannot begin before rank 0 has made F0; rank 0 waits from 2 to 4 for the gradient of microbatch 0.
TEST(Simulate, RunsEachActionAsSoonAsItsInputsAreThere) {
  const Simulation s = simulate(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1 B1"}, {2, 1}));
  EXPECT_EQ(starts(s, 0), (std::vector<Time>{0, 1, 4, 7}));
  EXPECT_EQ(starts(s, 1), (std::vector<Time>{1, 2, 4, 5}));
  EXPECT_EQ(s.makespan, 9);
  EXPECT_EQ(s.busy, (std::vector<Time>{6, 6}));
  EXPECT_EQ(s.peak_in_flight, (std::vector{2, 1}));
  EXPECT_EQ(s.span(0), 9);
  EXPECT_EQ(s.span(1), 6);
  EXPECT_EQ(s.bubble(), (Ratio{1, 3}));
  EXPECT_EQ(s.bubble_of_ideal(), (Ratio{1, 2}));
  EXPECT_TRUE(s.complete);
}

// What the rank before waits for is the input part alone.
TEST(Simulate, SendsAGradientWhenTheInputPartEnds) {
  const Simulation s = simulate(by_hand(1, {"F0 I0 W0", "F0 I0 W0"}, {1, 1}));
  EXPECT_EQ(starts(s, 0), (std::vector<Time>{0, 3, 4}));
  EXPECT_EQ(s.makespan, 5);
}

// A message takes its time and occupies nobody: rank 0 goes on with F1 while F0 travels.
TEST(Simulate, LetsMessagesTravelWhileRanksWork) {
  const Simulation s = simulate(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1 B1"}, {2, 1}), {.message = 2});
  EXPECT_EQ(starts(s, 0), (std::vector<Time>{0, 1, 8, 11}));
  EXPECT_EQ(starts(s, 1), (std::vector<Time>{3, 4, 6, 7}));
  EXPECT_EQ(s.makespan, 13);
  EXPECT_EQ(s.busy, (std::vector<Time>{6, 6}));
}

// The middle of a V hands over on its own rank: of 2p − 1 boundaries 2p − 2 are between ranks.
TEST(Simulate, ChargesNoMessageBetweenStagesOfOneRank) {
  const Cost cost{.message = 5};
  for (int ranks = 2; ranks <= 6; ++ranks) {
    const int stages = 2 * ranks;
    EXPECT_EQ(simulate<ZeroBubbleV>(ranks, 1).makespan, 2 * stages + 1) << ranks;
    EXPECT_EQ(simulate<ZeroBubbleV>(ranks, 1, cost).makespan, 2 * stages + 1 + 2 * (stages - 2) * 5) << ranks;
  }
}

// At unit costs messages take no time, in a running program as in a proof: see Cost.
TEST(Simulate, TakesAtRunTimeWhatItTakesInTheCompiler) {
  constexpr Time proven = simulate(make_pipeline<ZeroBubbleV>(2, 2)).makespan;
  const Pipeline pipeline = make_pipeline<ZeroBubbleV>(2, 2);
  EXPECT_EQ(simulate(pipeline).makespan, proven);
  EXPECT_EQ(simulate(pipeline, Cost{}).makespan, proven);
  EXPECT_EQ(simulate<ZeroBubbleV>(2, 2).makespan, proven);
}

// Forwards of identical microbatches flow as fast as the slowest stage lets them, and so do backwards:
// Σ(F + B) + (m − 1)(max F + max B), and each message on the way once.
TEST(Simulate, TakesOfGPipeWhatAFlowShopTakesWithACostForEachStage) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int microbatches = 1; microbatches <= 12; ++microbatches) {
      std::vector<Cost> costs;
      for (int stage = 0; stage < ranks; ++stage) {
        costs.push_back({.forward = 1 + stage * 5 % 4,
                         .backward_input = 1 + stage * 3 % 5,
                         .backward_weight = 1 + stage * 2 % 3,
                         .message = 1 + stage % 3});
      }
      Time once = 0;
      Time longest_forward = 0;
      Time longest_backward = 0;
      for (int stage = 0; stage < ranks; ++stage) {
        once += work(costs[stage]);
        if (stage + 1 < ranks) once += costs[stage].message;  // of its output
        if (stage > 0) once += costs[stage].message;          // of its input's gradient
        longest_forward = std::max(longest_forward, costs[stage].forward);
        longest_backward = std::max(longest_backward, costs[stage].of(Pass::backward));
      }
      const Simulation s = simulate<GPipe>(ranks, microbatches, costs);
      EXPECT_EQ(s.makespan, once + (microbatches - 1) * (longest_forward + longest_backward))
          << "p=" << ranks << ", m=" << microbatches;
      for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(s.busy[rank], microbatches * work(costs[rank]));
    }
  }
}

TEST(Simulate, TakesTheSumOrTheLargerOfAFusedPair) {
  const Pipeline fused = by_hand(2, {"F0 F0.1 F1 B0.1 F1.1&B0 B1.1 B1"}, {4}, {0, 1});
  EXPECT_EQ(simulate(fused).makespan, 12);
  EXPECT_EQ(simulate(fused, Cost{}, Fused::larger).makespan, 11);
  EXPECT_EQ(simulate(fused, {.forward = 5}, Fused::larger).busy,
            (std::vector<Time>{5 + 5 + 5 + 2 + 5 + 2 + 2}));
}

// Rank 0 runs microbatch 1 only after the gradient of 0, which rank 1 makes only after microbatch 1.
TEST(Simulate, SaysHowFarProgramsCameThatWaitForEver) {
  const Simulation s = simulate(by_hand(2, {"F0 B0 F1 B1", "F0 F1 B0 B1"}, {1, 2}));
  EXPECT_FALSE(s.complete);
  EXPECT_EQ(s.done(0), 1);
  EXPECT_EQ(s.done(1), 1);
  EXPECT_EQ(s.makespan, 2);
  EXPECT_TRUE(simulate<OneFOneB>(4, 6).complete);
  EXPECT_EQ(simulate<OneFOneB>(4, 6).done(3), 12);
}

template <class Policy>
class OneChunk : public testing::Test {};
using BaselinePolicies = testing::Types<GPipe, OneFOneB>;
TYPED_TEST_SUITE(OneChunk, BaselinePolicies);

TYPED_TEST(OneChunk, TakesThreeTimesMPlusPMinusOne) {
  expect_closed_forms<TypeParam>();
  for_each_size<TypeParam>([](int p, int m) {
    EXPECT_EQ(TypeParam::makespan(p, m), 3 * (m + p - 1));
    EXPECT_EQ(simulate<TypeParam>(p, m).bubble(), (Ratio{p - 1, m + p - 1}));
    EXPECT_EQ(simulate<TypeParam>(p, m).bubble_of_ideal(), (Ratio{p - 1, m}));
  });
}

TYPED_TEST(OneChunk, IsIdleForTheWorkOfPMinusOneMicrobatchesWithAnyCosts) {
  for (const Cost& cost : uneven_costs) {
    for_each_size<TypeParam>(
        [&](int p, int m) { EXPECT_EQ(idle<TypeParam>(p, m, cost), (p - 1) * work(cost)); });
  }
}

TYPED_TEST(OneChunk, PaysTwoMessagesForEachRankButOneWithOneMicrobatch) {
  for (int p = 1; p <= 16; ++p) {
    EXPECT_EQ(simulate<TypeParam>(p, 1, {.message = 7}).makespan, 3 * p + 2 * (p - 1) * 7);
  }
}

// No program without fused passes ends before (p − 1)F + m·V·(F + I + W): the last rank gets its first input
// after p − 1 forwards, then has all its work to do.
template <class Policy>
class Unfused : public testing::Test {};
using UnfusedPolicies = testing::Types<GPipe, OneFOneB, EagerOneFOneB, SplitOneFOneB, Interleaved<2>,
                                       Interleaved<3>, ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV>;
TYPED_TEST_SUITE(Unfused, UnfusedPolicies);

TYPED_TEST(Unfused, EndsNoSoonerThanAnyProgramCan) {
  for (const Cost& cost : uneven_costs) {
    for_each_size<TypeParam>([&](int p, int m) {
      EXPECT_GE(simulate<TypeParam>(p, m, cost).makespan,
                (p - 1) * cost.forward + Time{m} * TypeParam::chunks * work(cost));
    });
  }
}

}  // namespace
}  // namespace trilith::schedule::test
