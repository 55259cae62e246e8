// What follows from programs, whoever made them: exchanges, slots, and the forward passes alone.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/slots.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

#include "test/schedule/notation.hpp"
#include "test/schedule/rehearsal.hpp"
#include "test/schedule/sweep.hpp"
#include "test/schedule/user_policies.hpp"

namespace trilith::schedule::test {
namespace {

using trilith::test::EagerOneFOneB;
using trilith::test::InterleavedPlacement;
using trilith::test::SplitOneFOneB;
using trilith::test::TwoChunks;
using trilith::test::VPlacement;

constexpr auto send = Transfer::Kind::send;
constexpr auto receive = Transfer::Kind::receive;
constexpr Pass activations = Pass::forward;
constexpr Pass gradient = Pass::backward_input;

// Four stages on two ranks, as interleaved schedules place them and as V-shaped ones do.
const std::vector<int> interleaved{0, 2, 1, 3};
const std::vector<int> v_shaped{0, 3, 1, 2};

TEST(Pipeline, FindsTheStagesOfRanksAndTheRanksOfStages) {
  const Pipeline pipeline = by_hand(1, {"", ""}, {2, 2}, v_shaped);
  EXPECT_EQ(pipeline.stages(), 4);
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
      EXPECT_EQ(pipeline.place_of(pipeline.stage(rank, chunk)), std::pair(rank, chunk));
    }
  }
  EXPECT_EQ(pipeline.place_of(2), std::pair(1, 1));
}

TEST(MakePipeline, AsksThePolicyForEveryRank) {
  const Pipeline pipeline = make_pipeline<OneFOneB>(4, 6);
  EXPECT_EQ(pipeline.ranks, 4);
  EXPECT_EQ(pipeline.chunks, 1);
  EXPECT_EQ(pipeline.microbatches, 6);
  EXPECT_EQ(pipeline.stage_of, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(pipeline.promised_peak, (std::vector{4, 3, 2, 1}));
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(pipeline.programs[rank], OneFOneB::program(rank, 4, 6));
}

// A message is sent after the action that makes it, and received in the gap that is open then, or opens next.
TEST(Exchanges, OfTwoRanksAndTwoMicrobatches) {
  const Pipeline pipeline = make_pipeline<OneFOneB>(2, 2);  // F0 F1 B0 B1 and F0 B0 F1 B1
  const std::vector<Exchange> first = exchanges(pipeline, 0);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].before, 1);
  EXPECT_EQ(first[0].transfers, (std::vector<Transfer>{{send, 1, activations, 0, 0}}));
  EXPECT_EQ(first[1].before, 2);
  EXPECT_EQ(first[1].transfers,
            (std::vector<Transfer>{{send, 1, activations, 1, 0}, {receive, 1, gradient, 0, 0}}));
  EXPECT_EQ(first[2].before, 3);
  EXPECT_EQ(first[2].transfers, (std::vector<Transfer>{{receive, 1, gradient, 1, 0}}));

  const std::vector<Exchange> second = exchanges(pipeline, 1);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(second[0].before, 0);
  EXPECT_EQ(second[0].transfers, (std::vector<Transfer>{{receive, 0, activations, 0, 0}}));
  EXPECT_EQ(second[1].before, 1);  // F1 is made when F0 ends here, before B0 begins
  EXPECT_EQ(second[1].transfers, (std::vector<Transfer>{{receive, 0, activations, 1, 0}}));
  EXPECT_EQ(second[2].before, 2);
  EXPECT_EQ(second[2].transfers, (std::vector<Transfer>{{send, 0, gradient, 0, 0}}));
  EXPECT_EQ(second[3].before, 4);
  EXPECT_EQ(second[3].transfers, (std::vector<Transfer>{{send, 0, gradient, 1, 0}}));
}

TEST(Exchanges, OfOneRankAreNone) {
  EXPECT_TRUE(exchanges(make_pipeline<OneFOneB>(1, 4), 0).empty());
  // Nor do neighbouring stages of one rank exchange anything: here 1 and 2.
  const Pipeline pipeline = by_hand(1, {"F0 F0.1 B0.1 B0", "F0 F0.1 B0.1 B0"}, {2, 2}, v_shaped);
  for (const Exchange& exchange : exchanges(pipeline, 1)) {
    for (const Transfer& t : exchange.transfers) EXPECT_EQ(t.peer, 0);
  }
  EXPECT_EQ(Rehearsal(pipeline).run(), "");
}

TEST(Exchanges, OfRanksWithTwoChunksBringEveryActionItsInput) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int groups = 1; groups <= 3; ++groups) {
      const Pipeline interleaved_chunks =
          make_pipeline<TwoChunks<InterleavedPlacement>>(ranks, groups * ranks);
      EXPECT_EQ(Rehearsal(interleaved_chunks).run(), "") << "p=" << ranks;
      EXPECT_EQ(Rehearsal(make_pipeline<TwoChunks<VPlacement>>(ranks, groups * ranks)).run(), "")
          << "p=" << ranks;
    }
  }
}

// The weight part neither waits for a message nor sends one.
TEST(Exchanges, CarryGradientsAfterTheInputPart) {
  const Pipeline pipeline = by_hand(1, {"F0 I0 W0", "F0 I0 W0"}, {1, 1});
  const std::vector<Exchange> first = exchanges(pipeline, 0);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].before, 1);
  EXPECT_EQ(first[0].transfers,
            (std::vector<Transfer>{{send, 1, activations, 0, 0}, {receive, 1, gradient, 0, 0}}));
  const std::vector<Exchange> second = exchanges(pipeline, 1);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[1].before, 2);
  EXPECT_EQ(second[1].transfers, (std::vector<Transfer>{{send, 0, gradient, 0, 0}}));
}

template <class Policy>
class ExchangesOf : public testing::Test {};
using Policies = testing::Types<GPipe, OneFOneB, EagerOneFOneB, SplitOneFOneB, Interleaved<2>, Interleaved<3>,
                                ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, DualPipeV>;
TYPED_TEST_SUITE(ExchangesOf, Policies);

TYPED_TEST(ExchangesOf, BringEveryActionItsInputWithoutDeadlock) {
  for_each_size<TypeParam>([](int ranks, int microbatches) {
    EXPECT_EQ(Rehearsal(make_pipeline<TypeParam>(ranks, microbatches)).run(), "");
  });
}

// Walks a rank's program and its exchanges, and holds `places` against what their comment says: a microbatch
// takes a place that no other holds at the first transfer or action that `takes` names its chunk for, keeps
// it through all its later passes, and leaves it with the last.
void expect_places_hold_one_microbatch_each(const Pipeline& pipeline, int rank,
                                            const std::vector<Exchange>& groups, const Slots::Places& places,
                                            const std::function<bool(const Transfer&)>& arrives,
                                            const std::function<std::vector<int>(const Action&)>& takes) {
  const Program& program = pipeline.programs[rank];
  std::vector<std::vector<int>> holder(pipeline.chunks);
  std::vector<int> used(pipeline.chunks, 0);
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) holder[chunk].assign(places.count[chunk], -1);
  const auto take = [&](int chunk, int microbatch, int i) {
    const int place = places.of(chunk, microbatch);
    ASSERT_GE(place, 0) << "action " << i;
    ASSERT_LT(place, places.count[chunk]) << "action " << i;
    if (holder[chunk][place] == microbatch) return;
    EXPECT_EQ(holder[chunk][place], -1) << "action " << i;
    holder[chunk][place] = microbatch;
    used[chunk] = std::max(used[chunk], place + 1);
  };
  std::size_t group = 0;
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    if (group < groups.size() && groups[group].before == i) {
      for (const Transfer& t : groups[group++].transfers) {
        if (t.kind == receive && arrives(t)) take(t.chunk, t.microbatch, i);
      }
    }
    const Action& a = program[i];
    for (const int chunk : takes(a)) take(chunk, a.microbatch, i);
    const bool last = std::none_of(program.begin() + i + 1, program.end(), [&](const Action& later) {
      return later.chunk == a.chunk && later.microbatch == a.microbatch;
    });
    if (!last) continue;
    for (int& held : holder[a.chunk]) {
      if (held == a.microbatch) held = -1;
    }
  }
  EXPECT_EQ(used, places.count) << "more places than are ever used";
}

void expect_good_slots(const Pipeline& pipeline, int rank, const std::vector<Exchange>& groups) {
  const Slots s = slots(pipeline, rank, groups);
  const auto never = [](const Transfer&) { return false; };
  const auto by_forward = [](const Action& a) {
    return a.pass == Pass::forward ? std::vector{a.chunk} : std::vector<int>{};
  };
  const auto by_input_part = [](const Action& a) {
    return computes_input_gradient(a.pass) ? std::vector{a.chunk} : std::vector<int>{};
  };
  const auto of_next_stage = [&](const Action& a) {
    std::vector<int> chunks = by_input_part(a);
    const int before = chunks.empty() ? -1 : pipeline.chunk_before(rank, a.chunk);
    if (before >= 0) chunks.push_back(before);
    return chunks;
  };
  expect_places_hold_one_microbatch_each(pipeline, rank, groups, s.activations, never, by_forward);
  expect_places_hold_one_microbatch_each(
      pipeline, rank, groups, s.inputs, [](const Transfer& t) { return t.pass == activations; }, by_forward);
  expect_places_hold_one_microbatch_each(pipeline, rank, groups, s.gradients, never, by_input_part);
  expect_places_hold_one_microbatch_each(
      pipeline, rank, groups, s.output_gradients, [](const Transfer& t) { return t.pass == gradient; },
      of_next_stage);
}

template <class Policy>
class SlotsOf : public testing::Test {};
TYPED_TEST_SUITE(SlotsOf, Policies);

// Chunks of a rank don't share slots: each has as many as it holds at its own worst moment.
TYPED_TEST(SlotsOf, OfActivationsAreAsManyAsAreHeld) {
  for_each_size<TypeParam>([](int ranks, int microbatches) {
    const Pipeline pipeline = make_pipeline<TypeParam>(ranks, microbatches);
    const auto groups = exchanges(pipeline);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> held(pipeline.chunks, 0);
      std::vector<int> most(pipeline.chunks, 0);
      for (const Action& a : pipeline.programs[rank]) {
        if (a.pass == Pass::forward) most[a.chunk] = std::max(most[a.chunk], ++held[a.chunk]);
        if (releases_activations(a.pass)) --held[a.chunk];
      }
      EXPECT_EQ(slots(pipeline, rank, groups[rank]).activations.count, most) << "rank " << rank;
      if (pipeline.chunks == 1) {
        EXPECT_EQ(most, std::vector{pipeline.promised_peak[rank]}) << "rank " << rank;
      }
    }
  });
}

TYPED_TEST(SlotsOf, HoldOneMicrobatchEach) {
  for (int ranks : {1, 2, 3, 5}) {
    for (int microbatches = 1; microbatches <= 12; ++microbatches) {
      if (refusal<TypeParam>(ranks, microbatches) != nullptr) continue;
      const Pipeline pipeline = make_pipeline<TypeParam>(ranks, microbatches);
      const auto groups = exchanges(pipeline);
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(testing::Message() << "p=" << ranks << ", m=" << microbatches << ", rank " << rank);
        expect_good_slots(pipeline, rank, groups[rank]);
      }
    }
  }
}

TEST(Slots, GradientsNeedOnePlaceWhereBackwardIsWhole) {
  const Pipeline pipeline = make_pipeline<OneFOneB>(4, 6);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(slots(pipeline, rank).gradients.count, std::vector{1});
}

// Rank r of ZB-H1 keeps gradients from the input part of microbatch i to the weight part, r input parts
// later.
TEST(Slots, GradientsLastFromTheInputPartToTheWeightPart) {
  EXPECT_EQ(to_text(SplitOneFOneB::program(0, 4, 4)), "F0 F1 F2 F3 I0 W0 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(to_text(SplitOneFOneB::program(3, 4, 4)), "F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3");
  const Pipeline pipeline = make_pipeline<SplitOneFOneB>(4, 8);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(slots(pipeline, rank).gradients.count, std::vector{rank + 1});
  }

  const Slots last = slots(make_pipeline<SplitOneFOneB>(2, 3), 1);  // F0 I0 F1 I1 W0 F2 I2 W1 W2
  EXPECT_EQ(last.activations.places, (std::vector{0, 1, 0}));
  EXPECT_EQ(last.gradients.places, (std::vector{0, 1, 0}));
}

// Rank 1 of a V holds stages 1 and 2: the gradient of stage 1's output is there as soon as stage 2 has made
// it.
TEST(Slots, AGradientThatStaysOnTheRankHasItsPlaceFromTheStageThatMakesIt) {
  const Pipeline pipeline = make_pipeline<TwoChunks<VPlacement>>(2, 2);
  EXPECT_EQ(to_text(pipeline.programs[1]), "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1");
  EXPECT_EQ(slots(pipeline, 1).gradients.count, (std::vector{1, 1}));
  EXPECT_EQ(slots(pipeline, 1).output_gradients.count, (std::vector{2, 1}));
}

TEST(Slots, EachChunkHasItsOwn) {
  const Pipeline pipeline =
      by_hand(2, {"F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1", "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1"}, {3, 3}, interleaved);
  const Slots s = slots(pipeline, 0);
  EXPECT_EQ(s.activations.count, (std::vector{2, 1}));
  EXPECT_EQ(s.activations.places, (std::vector{0, 1, 0, 0}));
  EXPECT_EQ(s.gradients.count, (std::vector{1, 1}));
  expect_good_slots(pipeline, 0, exchanges(pipeline, 0));
}

TEST(SplitsBackward, WhereAWeightPartStandsApart) {
  static_assert(!splits_backward(OneFOneB::program(0, 4, 6)));
  static_assert(!splits_backward(GPipe::program(0, 4, 6)));
  static_assert(splits_backward(SplitOneFOneB::program(0, 4, 6)));
  // One microbatch split is enough.
  EXPECT_TRUE(splits_backward(parse("F0 F1 B0 I1 W1")));
  EXPECT_FALSE(splits_backward({}));
}

TEST(ForwardOnly, RunsEachMicrobatchThroughTheChunksInOrderOfTheirStages) {
  const Pipeline whole = forward_only(make_pipeline<OneFOneB>(4, 6), 3);
  EXPECT_EQ(whole.microbatches, 3);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(to_text(whole.programs[rank]), "F0 F1 F2");

  const Pipeline v = forward_only(by_hand(1, {"", ""}, {2, 2}, v_shaped), 2);
  EXPECT_EQ(to_text(v.programs[0]), "F0 F0.1 F1 F1.1");
  // Chunks need not ascend by stage.
  const Pipeline reversed = forward_only(by_hand(1, {"", ""}, {2, 2}, {2, 0, 3, 1}), 2);
  EXPECT_EQ(to_text(reversed.programs[1]), "F0.1 F0 F1.1 F1");
}

TEST(ForwardOnly, KeepsThePlacementAndEndsWithoutDeadlock) {
  for (const std::vector<int>& stage_of : {interleaved, v_shaped}) {
    const Pipeline training = by_hand(1, {"", ""}, {2, 2}, stage_of);
    for (int microbatches = 1; microbatches <= 5; ++microbatches) {
      const Pipeline pipeline = forward_only(training, microbatches);
      EXPECT_EQ(pipeline.stage_of, stage_of);
      EXPECT_EQ(Rehearsal(pipeline).run(), "");
    }
  }
  for_each_size<OneFOneB>([](int ranks, int microbatches) {
    // More or fewer microbatches than in training.
    EXPECT_EQ(Rehearsal(forward_only(make_pipeline<OneFOneB>(ranks, 4), microbatches)).run(), "");
  });
}

TEST(ForwardOnly, NeedsOneSlotAChunkAndNoGradients) {
  const Pipeline pipeline = forward_only(by_hand(1, {"", ""}, {2, 2}, v_shaped), 8);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(slots(pipeline, rank).activations.count, (std::vector{1, 1}));
    EXPECT_EQ(slots(pipeline, rank).gradients.count, (std::vector{0, 0}));
    EXPECT_EQ(pipeline.promised_peak[rank], 2);
  }
}

}  // namespace
}  // namespace trilith::schedule::test
