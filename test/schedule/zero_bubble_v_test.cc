// ZB-V: programs and figures, after Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024.
// Figures are in unit costs.
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"

namespace trilith {
namespace {

using schedule::simulate;
using schedule::test::expect_closed_forms;
using schedule::test::for_each_size;
using schedule::test::peaks;
using schedule::test::to_text;

static_assert(schedule_policy<ZeroBubbleV>);

static_assert(simulate<ZeroBubbleV>(4, 8).makespan == 51);
static_assert(simulate<ZeroBubbleV>(4, 8).bubble() == Ratio{3, 51});
static_assert(simulate<ZeroBubbleV>(4, 8).bubble_of_ideal() == Ratio{3, 48});

TEST(ZeroBubbleV, OfTwoRanksAndFourMicrobatches) {
  EXPECT_EQ(
      to_text(ZeroBubbleV::program(0, 2, 4)),
      "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 F3 I0 W0 F2.1 I2.1 W2.1 I1 W1 F3.1 I3.1 W3.1 I2 W2 I3 W3");
  EXPECT_EQ(
      to_text(ZeroBubbleV::program(1, 2, 4)),
      "F0 F0.1 F1 F1.1 I0.1 W0.1 F2 I0 W0 F2.1 I1.1 W1.1 F3 I1 W1 F3.1 I2.1 W2.1 I2 I3.1 I3 W2 W3.1 W3");
}

TEST(ZeroBubbleV, OfOneRankRunsAMicrobatchThroughBothChunks) {
  EXPECT_EQ(to_text(ZeroBubbleV::program(0, 1, 2)), "F0 F0.1 I0.1 W0.1 F1 I0 W0 F1.1 I1.1 W1.1 I1 W1");
}

TEST(ZeroBubbleV, PutsTheFirstStageAndTheLastOnRankZero) {
  static_assert(ZeroBubbleV::stage_of(0, 0, 4) == 0);
  static_assert(ZeroBubbleV::stage_of(0, 1, 4) == 7);
  static_assert(ZeroBubbleV::stage_of(3, 0, 4) == 3);
  static_assert(ZeroBubbleV::stage_of(3, 1, 4) == 4);
}

// 6m + p − 1: nothing can be shorter, for the last rank's first forward waits for p − 1 others.
TEST(ZeroBubbleV, HasNoBubbleButTheFillingForMAtLeastP) {
  expect_closed_forms<ZeroBubbleV>();
  for_each_size<ZeroBubbleV>([](int p, int m) {
    EXPECT_EQ(ZeroBubbleV::makespan(p, m), m >= p ? 6 * m + p - 1 : 0);
    if (m >= p) {
      EXPECT_EQ(simulate<ZeroBubbleV>(p, m).bubble(), (Ratio{p - 1, 6 * m + p - 1}));
    }
  });
}

// Where the paper's rule, cut short, takes 30.
TEST(ZeroBubbleV, TakesTwentySevenWithFourRanksAndFourMicrobatches) {
  EXPECT_EQ(simulate<ZeroBubbleV>(4, 4).makespan, 27);
}

TEST(ZeroBubbleV, HoldsTwoPChunksOnEveryRankFromTwoPMinusOneMicrobatches) {
  for_each_size<ZeroBubbleV>([](int p, int m) {
    if (m >= 2 * p) {
      EXPECT_EQ(peaks<ZeroBubbleV>(p, m), std::vector<int>(p, 2 * p));
    }
    for (const int peak : peaks<ZeroBubbleV>(p, m)) EXPECT_LE(peak, m >= 2 * p - 1 ? 2 * p : 3 * p);
  });
}

}  // namespace
}  // namespace trilith
