// GPipe's programs. That they obey the laws, as every schedule's must, is in laws_test.cc.
#include <gtest/gtest.h>

#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/policy.hpp>

#include "test/schedule/notation.hpp"

namespace trilith {
namespace {

using schedule::test::to_text;

static_assert(schedule_policy<GPipe>);

TEST(GPipe, RunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(to_text(GPipe::program(0, 4, 3)), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(to_text(GPipe::program(0, 1, 1)), "F0 B0");
}

TEST(GPipe, IsTheSameOnEveryRank) {
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(GPipe::program(rank, 4, 6), GPipe::program(0, 4, 6));
}

TEST(GPipe, HoldsEveryMicrobatch) {
  for (int microbatches : {1, 4, 64}) EXPECT_EQ(GPipe::peak_in_flight(3, 4, microbatches), microbatches);
}

}  // namespace
}  // namespace trilith
