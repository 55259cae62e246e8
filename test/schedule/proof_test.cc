// The compiler's own proof of every schedule, and what it leaves as constants. That it fails for a broken one
// is tested in test/compile_fail/.
#include <array>

#include <gtest/gtest.h>

#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/proof.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

#include "test/schedule/user_policies.hpp"

namespace trilith::schedule::test {
namespace {

template <class Policy, int Ranks, int M>
constexpr bool is_proved = provable(Ranks, M, Policy::chunks) && Proof<Policy, Ranks, M>::verdict
                                                                     == Verdict{};

static_assert(is_proved<GPipe, 1, 1>);
static_assert(is_proved<GPipe, 4, 8>);
static_assert(is_proved<OneFOneB, 1, 3>);
static_assert(is_proved<OneFOneB, 4, 2>);
static_assert(is_proved<Interleaved<2>, 2, 4>);
static_assert(is_proved<Interleaved<3>, 4, 8>);
static_assert(is_proved<ZeroBubbleH1, 4, 6>);
static_assert(is_proved<ZeroBubbleH2, 3, 8>);
static_assert(is_proved<ZeroBubbleV, 4, 4>);
static_assert(is_proved<ZeroBubbleV, 4, 8>);
static_assert(is_proved<DualPipeV, 4, 8>);
static_assert(is_proved<trilith::test::EagerOneFOneB, 3, 4>);

// The largest that provable() allows, with the limits that compilers set by default.
static_assert(is_proved<OneFOneB, 16, 16>);
static_assert(is_proved<ZeroBubbleH2, 8, 32>);
static_assert(is_proved<ZeroBubbleV, 8, 16>);

TEST(Proof, LeavesTheSlotsOfEachChunkAsConstants) {
  static_assert(Proof<OneFOneB, 4, 8>::slots == std::array<std::array<int, 1>, 4>{{{4}, {3}, {2}, {1}}});
  static_assert(Proof<GPipe, 2, 8>::slots == std::array<std::array<int, 1>, 2>{{{8}, {8}}});
  static_assert(Proof<ZeroBubbleV, 2, 4>::slots[0] == std::array{4, 1});
}

TEST(Provable, EndsAtTwoHundredAndFiftySixMicrobatchesOfAllStages) {
  static_assert(provable(8, 32, 1));
  static_assert(!provable(8, 33, 1));
  static_assert(!provable(8, 32, 2));
  static_assert(!provable(17, 1, 1));
  static_assert(!provable(1, 1 << 30, 1 << 30));
}

}  // namespace
}  // namespace trilith::schedule::test
