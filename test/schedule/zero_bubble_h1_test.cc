// ZB-H1: programs and figures, after Qi et al., "Zero bubble pipeline parallelism", ICLR 2024. Figures are in
// unit costs.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"

namespace trilith {
namespace {

using schedule::simulate;
using schedule::test::expect_closed_forms;
using schedule::test::for_each_size;
using schedule::test::peaks;
using schedule::test::to_text;

static_assert(schedule_policy<ZeroBubbleH1>);

static_assert(simulate<ZeroBubbleH1>(4, 4).makespan == 15);
static_assert(simulate<ZeroBubbleH1>(4, 4).bubble() == Ratio{1, 5});
static_assert(simulate<ZeroBubbleH1>(4, 4).bubble_of_ideal() == Ratio{1, 4});

TEST(ZeroBubbleH1, OfFourRanksAndFourMicrobatches) {
  EXPECT_EQ(to_text(ZeroBubbleH1::program(0, 4, 4)), "F0 F1 F2 F3 I0 W0 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(to_text(ZeroBubbleH1::program(1, 4, 4)), "F0 F1 F2 I0 F3 I1 W0 I2 W1 I3 W2 W3");
  EXPECT_EQ(to_text(ZeroBubbleH1::program(2, 4, 4)), "F0 F1 I0 F2 I1 F3 I2 W0 I3 W1 W2 W3");
  EXPECT_EQ(to_text(ZeroBubbleH1::program(3, 4, 4)), "F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3");
}

TEST(ZeroBubbleH1, WithFewerMicrobatchesThanRanks) {
  EXPECT_EQ(to_text(ZeroBubbleH1::program(0, 4, 2)), "F0 F1 I0 W0 I1 W1");
  EXPECT_EQ(to_text(ZeroBubbleH1::program(3, 4, 2)), "F0 I0 F1 I1 W0 W1");
}

// 3m + p − 1 for m ≥ p, 2(m + p) − 1 for fewer.
TEST(ZeroBubbleH1, HasAThirdOfTheBubbleOfOneFOneB) {
  expect_closed_forms<ZeroBubbleH1>();
  for_each_size<ZeroBubbleH1>([](int p, int m) {
    EXPECT_EQ(ZeroBubbleH1::makespan(p, m), m >= p ? 3 * m + p - 1 : 2 * (m + p) - 1);
    const schedule::Cost unit;
    if (m < p) return;
    EXPECT_EQ(simulate<ZeroBubbleH1>(p, m).bubble(), (Ratio{p - 1, 3 * m + p - 1}));
    EXPECT_EQ(3 * schedule::test::idle<ZeroBubbleH1>(p, m, unit), schedule::test::idle<OneFOneB>(p, m, unit));
  });
}

// (p − 1)(F + I − min(F, I, W)): with costs so uneven that the weight parts don't fill the wait, it is
// longer.
TEST(ZeroBubbleH1, IsIdleForWhatItsWeightPartsDoNotFill) {
  for (const schedule::Cost& cost : schedule::test::uneven_costs) {
    for_each_size<ZeroBubbleH1>([&](int p, int m) {
      if (m < p) return;
      const schedule::Time least = std::min({cost.forward, cost.backward_input, cost.backward_weight});
      EXPECT_EQ(schedule::test::idle<ZeroBubbleH1>(p, m, cost),
                (p - 1) * (cost.forward + cost.backward_input - least));
    });
  }
}

// Held until the weight part: every rank reaches what only the first holds under 1F1B.
TEST(ZeroBubbleH1, HoldsPMicrobatchesOnEveryRank) {
  for_each_size<ZeroBubbleH1>([](int p, int m) {
    EXPECT_EQ(peaks<ZeroBubbleH1>(p, m), std::vector<int>(p, std::min(p, m)));
    EXPECT_EQ(ZeroBubbleH1::peak_in_flight(p - 1, p, m), OneFOneB::peak_in_flight(0, p, m));
  });
}

}  // namespace
}  // namespace trilith
