// The laws of pipeline programs: every schedule obeys them, and each one broken on purpose is found, with its
// rank and its action.
#include <algorithm>
#include <cstddef>
#include <ostream>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/config.hpp>
#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/laws.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/sweep.hpp"
#include "test/schedule/user_policies.hpp"

namespace trilith::schedule {

void PrintTo(const Verdict& verdict, std::ostream* out) {
  *out << "\"" << sentence(verdict.law) << "\", rank " << verdict.rank << ", action " << verdict.action;
}

namespace test {
namespace {

using trilith::test::EagerOneFOneB;
using trilith::test::InterleavedPlacement;
using trilith::test::SplitOneFOneB;
using trilith::test::TwoChunks;
using trilith::test::VPlacement;

template <class Policy>
constexpr bool is_lawful(int ranks, int microbatches) {
  return verify(make_pipeline<Policy>(ranks, microbatches)) == Verdict{};
}

// The compiler's own proof, at sizes that take it no noticeable time.
static_assert(is_lawful<GPipe>(1, 1));
static_assert(is_lawful<GPipe>(3, 4));
static_assert(is_lawful<OneFOneB>(1, 3));
static_assert(is_lawful<OneFOneB>(4, 2));
static_assert(is_lawful<OneFOneB>(4, 6));
static_assert(is_lawful<EagerOneFOneB>(3, 4));
static_assert(is_lawful<SplitOneFOneB>(3, 4));

template <class Policy>
class LawsOf : public testing::Test {};
using Policies = testing::Types<GPipe, OneFOneB, EagerOneFOneB, SplitOneFOneB, Interleaved<1>, Interleaved<2>,
                                Interleaved<3>, Interleaved<4>, Interleaved<2, 5>, ZeroBubbleH1, ZeroBubbleH2,
                                ZeroBubbleV, DualPipeV>;
TYPED_TEST_SUITE(LawsOf, Policies);

TYPED_TEST(LawsOf, HoldForEveryNumberOfRanksAndMicrobatches) {
  for_each_size<TypeParam>([](int ranks, int microbatches) {
    EXPECT_EQ(verify(make_pipeline<TypeParam>(ranks, microbatches)), Verdict{});
  });
}

TEST(Laws, HoldWhereRanksHaveTwoChunks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int groups = 1; groups <= 4; ++groups) {
      const int microbatches = groups * ranks;
      EXPECT_EQ(verify(make_pipeline<TwoChunks<InterleavedPlacement>>(ranks, microbatches)), Verdict{});
      EXPECT_EQ(verify(make_pipeline<TwoChunks<VPlacement>>(ranks, microbatches)), Verdict{});
    }
  }
}

// A user's policy needs nothing but what the concept asks for.
static_assert(schedule_policy<EagerOneFOneB>);
static_assert(
    std::is_same_v<Config<Schedule<EagerOneFOneB>>::policy<ScheduleCategory>::schedule, EagerOneFOneB>);

TEST(UserPolicy, HoldsOneMicrobatchMoreThanOneFOneB) {
  EXPECT_EQ(to_text(EagerOneFOneB::program(2, 4, 4)), "F0 F1 F2 B0 F3 B1 B2 B3");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(EagerOneFOneB::peak_in_flight(rank, 4, 8), OneFOneB::peak_in_flight(rank, 4, 8) + 1);
  }
}

// From here on F0 F1 B0 B1 and F0 B0 F1 B1, which are lawful, with one fault at a time.
TEST(Verify, FindsNothingInALawfulPipelineMadeByHand) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1 B1"}, {2, 1})), Verdict{});
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 I0 W0 I1 W1", "F0 I0 F1 W0 I1 W1"}, {2, 2})), Verdict{});
  // Some microbatches whole, some in parts.
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 I1 W1", "F0 I0 W0 F1 B1"}, {2, 1})), Verdict{});
}

TEST(Verify, FindsAMissingBackward) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1"}, {2, 1})), (Verdict{Law::exactly_once, 1, 3}));
}

TEST(Verify, FindsAMissingForward) {
  EXPECT_EQ(verify(by_hand(2, {"F0 B0", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::exactly_once, 0, 2}));
}

TEST(Verify, FindsAMissingWeightPart) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 I0 W0 I1", "F0 B0 F1 B1"}, {2, 1})),
            (Verdict{Law::exactly_once, 0, 5}));
}

TEST(Verify, FindsWhatIsDoneTwice) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 F1 B0 B1", "F0 B0 F1 B1"}, {3, 1})),
            (Verdict{Law::exactly_once, 0, 2}));
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B0 B1", "F0 B0 F1 B1"}, {2, 1})),
            (Verdict{Law::exactly_once, 0, 3}));
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 W0 B1", "F0 B0 F1 B1"}, {2, 1})),
            (Verdict{Law::exactly_once, 0, 3}));
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 I0 B0 B1", "F0 B0 F1 B1"}, {2, 1})),
            (Verdict{Law::exactly_once, 0, 3}));
}

TEST(Verify, FindsMicrobatchesAndChunksThatDoNotExist) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F2 B0 B2", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::exactly_once, 0, 1}));
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F-1 B1"}, {2, 1})), (Verdict{Law::exactly_once, 1, 2}));
  EXPECT_EQ(verify(by_hand(2, {"F0 F1.1 B0 B1", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::exactly_once, 0, 1}));
}

TEST(Verify, FindsABackwardBeforeItsForward) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 B0 B1 F1"}, {2, 1})), (Verdict{Law::order, 1, 2}));
  EXPECT_EQ(verify(by_hand(2, {"I0 F0 W0 F1 B1", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::order, 0, 0}));
}

TEST(Verify, FindsAWeightPartBeforeItsInputPart) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 I0 W0 W1 I1", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::order, 0, 4}));
}

// Rank 1 of a V holds stages 1 and 2. Nothing travels between them, so only the order of its own actions
// brings the one what the other makes.
TEST(Verify, FindsAStageBeforeItsNeighbourOnTheSameRank) {
  const auto v_shaped = [](const std::string& second) {
    return verify(by_hand(1, {"F0 F0.1 B0.1 B0", second}, {2, 2}, {0, 3, 1, 2}));
  };
  EXPECT_EQ(v_shaped("F0 F0.1 B0.1 B0"), Verdict{});
  EXPECT_EQ(v_shaped("F0.1 F0 B0.1 B0"), (Verdict{Law::order, 1, 0}));
  EXPECT_EQ(v_shaped("F0 F0.1 B0 B0.1"), (Verdict{Law::order, 1, 2}));
  EXPECT_EQ(v_shaped("F0 F0.1 I0 I0.1 W0.1 W0"), (Verdict{Law::order, 1, 2}));
  EXPECT_EQ(v_shaped("F0 F0.1 I0.1 I0 W0 W0.1"), Verdict{});
}

TEST(Verify, FindsGradientsThatDescend) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 F1 B1 B0"}, {2, 2})), (Verdict{Law::ascend, 1, 3}));
}

TEST(Verify, FindsInputPartsThatDescendWhereWeightPartsDoNot) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 I1 I0 W0 W1", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::ascend, 0, 3}));
}

TEST(Verify, FindsWeightPartsThatDescendWhereInputPartsDoNot) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 I0 I1 W1 W0", "F0 B0 F1 B1"}, {2, 1})), (Verdict{Law::ascend, 0, 5}));
}

// Each message is received where it is made, so another order on the other rank is no fault.
TEST(Verify, AllowsForwardsInAnotherOrderThanTheRankBefore) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F1 F0 B0 B1"}, {2, 2})), Verdict{});
}

// Rank 0 sends 1 and then 0; rank 1 expects 0 first. It shows where rank 0 sends, before its second action.
TEST(VerifyExchanges, FindsAPairOfSendsThatWereSwapped) {
  const Pipeline pipeline = make_pipeline<OneFOneB>(2, 2);
  auto groups = exchanges(pipeline);
  EXPECT_EQ(verify_exchanges(pipeline, groups), Verdict{});
  std::swap(groups[0][0].transfers[0].microbatch, groups[0][1].transfers[0].microbatch);
  EXPECT_EQ(verify_exchanges(pipeline, groups), (Verdict{Law::matched, 0, 1}));
}

TEST(VerifyExchanges, FindsAMessageThatWouldArriveAtAnotherStage) {
  const Pipeline pipeline = by_hand(1, {"F0 F0.1 B0.1 B0", "F0 F0.1 B0.1 B0"}, {2, 2}, {0, 2, 1, 3});
  auto groups = exchanges(pipeline);
  EXPECT_EQ(verify_exchanges(pipeline, groups), Verdict{});
  groups[1][0].transfers[0].chunk = 1;
  EXPECT_EQ(verify_exchanges(pipeline, groups), (Verdict{Law::matched, 0, 1}));
}

TEST(VerifyExchanges, FindsAReceiveWithoutASend) {
  const Pipeline pipeline = make_pipeline<OneFOneB>(2, 2);
  auto groups = exchanges(pipeline);
  groups[0].erase(groups[0].begin());
  EXPECT_EQ(verify_exchanges(pipeline, groups).law, Law::matched);
}

// One by one, in the order of their groups, even the transfers of 1F1B wait for each other: two neighbours
// send to each other at the same time.
TEST(VerifyExchanges, FindsThatOneFOneBDeadlocksWithoutGroups) {
  const Pipeline pipeline = make_pipeline<OneFOneB>(3, 6);
  std::vector<std::vector<Exchange>> one_by_one;
  for (const std::vector<Exchange>& groups : exchanges(pipeline)) {
    one_by_one.emplace_back();
    for (const Exchange& group : groups) {
      for (const Transfer& t : group.transfers) one_by_one.back().push_back({group.before, {t}});
      std::stable_sort(one_by_one.back().end() - static_cast<std::ptrdiff_t>(group.transfers.size()),
                       one_by_one.back().end(), [](const Exchange& a, const Exchange& b) {
                         return a.transfers[0].kind < b.transfers[0].kind;
                       });
    }
  }
  EXPECT_EQ(verify_exchanges(pipeline, one_by_one).law, Law::progress);
}

// Rank 0 runs microbatch 1 only after the gradient of 0, which rank 1 makes only after microbatch 1.
TEST(Verify, FindsACycleOfExchanges) {
  EXPECT_EQ(verify(by_hand(2, {"F0 B0 F1 B1", "F0 F1 B0 B1"}, {1, 2})), (Verdict{Law::progress, 0, 1}));
}

// The same cycle between ranks 1 and 2. The first rank that waits for ever is named, though it is not in the
// cycle.
TEST(Verify, FindsACycleBehindARankThatWaits) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1 B1", "F0 F1 B0 B1"}, {2, 1, 2})),
            (Verdict{Law::progress, 0, 2}));
}

TEST(Verify, FindsOneMicrobatchTooManyInFlight) {
  // GPipe that promises as 1F1B does.
  Pipeline pipeline = make_pipeline<GPipe>(2, 3);
  pipeline.promised_peak = make_pipeline<OneFOneB>(2, 3).promised_peak;
  EXPECT_EQ(verify(pipeline), (Verdict{Law::in_flight, 0, 2}));
  // One more warm-up forward than was promised.
  pipeline = make_pipeline<EagerOneFOneB>(4, 6);
  pipeline.promised_peak[2] = OneFOneB::peak_in_flight(2, 4, 6);
  EXPECT_EQ(verify(pipeline), (Verdict{Law::in_flight, 2, 2}));
}

TEST(Verify, CountsAMicrobatchUntilItsWeightPart) {
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 I0 F1 I1 W0 W1"}, {2, 1})),
            (Verdict{Law::in_flight, 1, 2}));
  EXPECT_EQ(verify(by_hand(2, {"F0 F1 B0 B1", "F0 I0 F1 I1 W0 W1"}, {2, 2})), Verdict{});
}

TEST(Verify, FindsStagesThatLieTwiceOrNowhere) {
  const auto placed = [](std::vector<int> stage_of) {
    return verify(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1 B1"}, {2, 1}, stage_of));
  };
  EXPECT_EQ(placed({0, 0}), (Verdict{Law::placement, 1, 0}));
  EXPECT_EQ(placed({0, 2}), (Verdict{Law::placement, 1, 0}));
  EXPECT_EQ(placed({-1, 1}), (Verdict{Law::placement, 0, 0}));
}

TEST(Law, EachHasASentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int law = 0; law <= static_cast<int>(Law::in_flight); ++law) {
    sentences.insert(sentence(static_cast<Law>(law)));
  }
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(Law::in_flight) + 1);
  EXPECT_FALSE(sentences.contains(""));
}

TEST(RequireLawful, SaysWhichScheduleBreaksWhichLawAndWhere) {
  EXPECT_NO_THROW(require_lawful(make_pipeline<OneFOneB>(4, 6), "OneFOneB"));
  try {
    require_lawful(by_hand(2, {"F0 F1 B0 B1", "F0 B0 F1"}, {2, 1}), "Mine");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "schedule Mine is wrong at p=2, m=2, rank 1, action 3; each microbatch must have exactly one "
        "forward and one backward (both parts) in each chunk");
  }
}

}  // namespace
}  // namespace test
}  // namespace trilith::schedule
