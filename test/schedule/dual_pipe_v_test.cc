// DualPipeV: programs and figures, after DeepSeek-AI, "DeepSeek-V3 technical report", 2024, and the DualPipe
// repository. Figures are in unit costs, in three readings: a fused pair costs its sum, or its larger part,
// or is two passes that happen to stand side by side.
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"

namespace trilith {
namespace {

using schedule::Cost;
using schedule::Fused;
using schedule::make_pipeline;
using schedule::Pipeline;
using schedule::refusal;
using schedule::simulate;
using schedule::test::expect_closed_forms;
using schedule::test::for_each_size;
using schedule::test::peaks;
using schedule::test::to_text;

static_assert(schedule_policy<DualPipeV>);

static_assert(simulate<DualPipeV>(4, 10).makespan == 66);
static_assert(simulate<DualPipeV>(4, 10).bubble() == Ratio{1, 11});

TEST(DualPipeV, OfTwoRanksAndFourMicrobatches) {
  EXPECT_EQ(to_text(DualPipeV::program(0, 2, 4)),
            "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 F3&B1.1 F2.1&B0 B2.1 F3.1&B1 B3.1 I2 W2 I3 W3");
  EXPECT_EQ(to_text(DualPipeV::program(1, 2, 4)),
            "F0 F0.1 F1 F1.1 F2 B0.1 F2.1&B0 F3&B1.1 F3.1&B1 B2.1 B2 I3.1 I3 W3.1 W3");
}

TEST(DualPipeV, OfOneRank) {
  EXPECT_EQ(to_text(DualPipeV::program(0, 1, 2)), "F0 F0.1 F1 B0.1 F1.1&B0 B1.1 I1 W1");
}

TEST(DualPipeV, FusesAForwardWithABackwardOfTheOtherChunk) {
  for_each_size<DualPipeV>([](int p, int m) {
    for (const schedule::Program& program : make_pipeline<DualPipeV>(p, m).programs) {
      EXPECT_FALSE(program.back().fused_with_next);
      for (std::size_t i = 0; i < program.size(); ++i) {
        if (!program[i].fused_with_next) continue;
        ASSERT_EQ(program[i].pass, schedule::Pass::forward);
        ASSERT_EQ(program[i + 1].pass, schedule::Pass::backward);
        ASSERT_EQ(program[i].chunk + program[i + 1].chunk, 1);
        ASSERT_FALSE(program[i + 1].fused_with_next);
      }
    }
  });
}

TEST(DualPipeV, TakesSixMPlusTwoPMinusTwoWhereAFusedPairCostsTheSum) {
  expect_closed_forms<DualPipeV>();
  for_each_size<DualPipeV>([](int p, int m) { EXPECT_EQ(DualPipeV::makespan(p, m), 6 * m + 2 * (p - 1)); });
}

TEST(DualPipeV, TakesFourMPlusThreePWhereAFusedPairCostsTheLarger) {
  for_each_size<DualPipeV>([](int p, int m) {
    EXPECT_EQ(simulate(make_pipeline<DualPipeV>(p, m), Cost{}, Fused::larger).makespan, 4 * m + 3 * p);
  });
}

TEST(DualPipeV, TakesSixMPlusPMinusOneWithPassesApart) {
  for_each_size<DualPipeV>([](int p, int m) {
    Pipeline pipeline = make_pipeline<DualPipeV>(p, m);
    for (schedule::Program& program : pipeline.programs) {
      for (schedule::Action& action : program) action.fused_with_next = false;
    }
    EXPECT_EQ(simulate(pipeline).makespan, 6 * m + p - 1);
  });
}

TEST(DualPipeV, HoldsTwoPPlusOneChunksOnEveryRank) {
  for_each_size<DualPipeV>(
      [](int p, int m) { EXPECT_EQ(peaks<DualPipeV>(p, m), std::vector<int>(p, 2 * p + 1)); });
}

TEST(DualPipeV, NeedsTwoPMicrobatches) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    EXPECT_EQ(refusal<DualPipeV>(ranks, 2 * ranks), nullptr);
    EXPECT_STREQ(refusal<DualPipeV>(ranks, 2 * ranks - 1),
                 "DualPipeV: there must be at least 2p microbatches; use ZeroBubbleV for fewer");
  }
}

}  // namespace
}  // namespace trilith
