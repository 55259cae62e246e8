// 1F1B's programs. That they obey the laws, as every schedule's must, is in laws_test.cc.
#include <algorithm>

#include <gtest/gtest.h>

#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/policy.hpp>

#include "test/schedule/notation.hpp"

namespace trilith {
namespace {

using schedule::test::to_text;

static_assert(schedule_policy<OneFOneB>);

TEST(OneFOneB, OfFourRanksAndSixMicrobatches) {
  EXPECT_EQ(to_text(OneFOneB::program(0, 4, 6)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(to_text(OneFOneB::program(1, 4, 6)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(to_text(OneFOneB::program(2, 4, 6)), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  EXPECT_EQ(to_text(OneFOneB::program(3, 4, 6)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
}

TEST(OneFOneB, WithFewerMicrobatchesThanRanks) {
  EXPECT_EQ(to_text(OneFOneB::program(0, 4, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(to_text(OneFOneB::program(1, 4, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(to_text(OneFOneB::program(2, 4, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(to_text(OneFOneB::program(3, 4, 2)), "F0 B0 F1 B1");
}

TEST(OneFOneB, OfOneRankAlternates) {
  EXPECT_EQ(to_text(OneFOneB::program(0, 1, 3)), "F0 B0 F1 B1 F2 B2");
}

// Rank r runs min(p − 1 − r, m) forwards before its first pair, so min(p − r, m) before its first backward.
TEST(OneFOneB, WarmsUpJustLongEnoughForTheFirstGradientToComeBack) {
  static_assert(OneFOneB::warm_up(0, 4, 6) == 3);
  static_assert(OneFOneB::warm_up(3, 4, 6) == 0);
  static_assert(OneFOneB::warm_up(0, 8, 3) == 3);
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int microbatches = 1; microbatches <= 64; ++microbatches) {
      for (int rank = 0; rank < ranks; ++rank) {
        const schedule::Program program = OneFOneB::program(rank, ranks, microbatches);
        const auto first_backward =
            std::find_if(program.begin(), program.end(),
                         [](const schedule::Action& a) { return a.pass == schedule::Pass::backward; });
        EXPECT_EQ(first_backward - program.begin(), std::min(ranks - rank, microbatches));
        EXPECT_EQ(OneFOneB::warm_up(rank, ranks, microbatches), std::min(ranks - 1 - rank, microbatches));
      }
    }
  }
}

TEST(OneFOneB, KeepsAtMostPMicrobatchesInFlight) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int microbatches = 1; microbatches <= 64; ++microbatches) {
      for (int rank = 0; rank < ranks; ++rank) {
        int held = 0;
        int peak = 0;
        for (const schedule::Action& a : OneFOneB::program(rank, ranks, microbatches)) {
          held += a.pass == schedule::Pass::forward ? 1 : -1;
          peak = std::max(peak, held);
        }
        EXPECT_EQ(peak, std::min(ranks - rank, microbatches));
        EXPECT_EQ(OneFOneB::peak_in_flight(rank, ranks, microbatches), peak);
      }
    }
  }
}

}  // namespace
}  // namespace trilith
