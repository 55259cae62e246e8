// ZB-H2: programs and figures, after Qi et al., "Zero bubble pipeline parallelism", ICLR 2024. Figures are in
// unit costs.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"

namespace trilith {
namespace {

using schedule::simulate;
using schedule::Simulation;
using schedule::test::expect_closed_forms;
using schedule::test::for_each_size;
using schedule::test::peaks;
using schedule::test::to_text;

static_assert(schedule_policy<ZeroBubbleH2>);

static_assert(simulate<ZeroBubbleH2>(4, 8).makespan == 27);
static_assert(simulate<ZeroBubbleH2>(4, 8).bubble() == Ratio{1, 9});

TEST(ZeroBubbleH2, OfThreeRanksAndFiveMicrobatches) {
  EXPECT_EQ(to_text(ZeroBubbleH2::program(0, 3, 5)), "F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4");
  EXPECT_EQ(to_text(ZeroBubbleH2::program(1, 3, 5)), "F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4");
  EXPECT_EQ(to_text(ZeroBubbleH2::program(2, 3, 5)), "F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4");
}

TEST(ZeroBubbleH2, WithOneMicrobatch) {
  EXPECT_EQ(to_text(ZeroBubbleH2::program(0, 4, 1)), "F0 I0 W0");
  EXPECT_EQ(to_text(ZeroBubbleH2::program(3, 4, 1)), "F0 I0 W0");
}

TEST(ZeroBubbleH2, TakesAsLongAsH1) {
  expect_closed_forms<ZeroBubbleH2>();
  for_each_size<ZeroBubbleH2>([](int p, int m) {
    EXPECT_EQ(ZeroBubbleH2::makespan(p, m), m >= 2 * p - 2 ? ZeroBubbleH1::makespan(p, m) : 0);
  });
}

// That is what its memory buys: from its first action to its last each rank works, for 3m.
TEST(ZeroBubbleH2, IsIdleOnlyAtTheEndsOfARank) {
  for_each_size<ZeroBubbleH2>([](int p, int m) {
    if (m < 2 * p - 1) return;
    const Simulation s = simulate<ZeroBubbleH2>(p, m);
    for (int rank = 0; rank < p; ++rank) EXPECT_EQ(s.span(rank), 3 * m) << "rank " << rank;
  });
  EXPECT_GT(simulate<ZeroBubbleH1>(4, 8).span(0), 3 * 8);
}

TEST(ZeroBubbleH2, HoldsUpToTwoPMinusOneOnEveryRank) {
  for_each_size<ZeroBubbleH2>([](int p, int m) {
    EXPECT_EQ(peaks<ZeroBubbleH2>(p, m), std::vector<int>(p, std::min(2 * p - 1, m)));
  });
}

}  // namespace
}  // namespace trilith
