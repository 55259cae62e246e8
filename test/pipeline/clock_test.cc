// The executor of training, run on clocks: what a program takes on real ranks with real messages is what the
// simulator says, to the unit.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/comm/thread_world.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/pipeline/executor.hpp>
#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/slots.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

#include "test/pipeline/clock_stage.hpp"

namespace trilith::test {
namespace {

using schedule::Cost;
using schedule::Pipeline;
using schedule::Time;

struct Ran {
  Time makespan = 0;
  std::vector<Time> busy;
  std::vector<int> peak_in_flight;
  friend bool operator==(const Ran&, const Ran&) = default;
};

Ran execute(const Pipeline& pipeline, const std::vector<Cost>& costs) {
  const auto exchanges = schedule::exchanges(pipeline);
  std::vector<int> all(pipeline.ranks);
  std::iota(all.begin(), all.end(), 0);
  Ran ran{.busy = std::vector<Time>(pipeline.ranks), .peak_in_flight = std::vector<int>(pipeline.ranks)};
  std::vector<Time> ends(pipeline.ranks);
  ThreadWorld world(pipeline.ranks);
  world.run([&](ThreadRank& rank) {
    const int r = rank.rank();
    ThreadCommunicator group = rank.group("pipeline", all);
    RankClock clock(pipeline.programs[r]);
    const schedule::Slots slots = schedule::slots(pipeline, r, exchanges[r]);
    std::vector<ClockStage> stages;
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk)
      stages.emplace_back(pipeline, r, chunk, slots, costs, clock);
    std::vector<ClockStage*> pointers;
    for (ClockStage& stage : stages) pointers.push_back(&stage);
    Executor<ClockStage, ThreadCommunicator>(pipeline, exchanges[r], group, pointers).run(Host::Stream{});
    ends[r] = clock.now();
    ran.busy[r] = clock.busy();
    ran.peak_in_flight[r] = clock.most_held();
  });
  ran.makespan = *std::max_element(ends.begin(), ends.end());
  return ran;
}

void expect_what_the_simulator_says(const Pipeline& pipeline, const std::vector<Cost>& costs) {
  const schedule::Simulation s = schedule::simulate(pipeline, costs);
  const Ran ran = execute(pipeline, costs);
  EXPECT_EQ(ran.makespan, s.makespan);
  EXPECT_EQ(ran.busy, s.busy);
  EXPECT_EQ(ran.peak_in_flight, s.peak_in_flight);
}

// Each stage costs something else.
std::vector<Cost> uneven(int stages) {
  std::vector<Cost> costs;
  for (int i = 0; i < stages; ++i) {
    costs.push_back({.forward = 3 + i * 5 % 4,
                     .backward_input = 2 + i * 3 % 5,
                     .backward_weight = 1 + i * 2 % 3,
                     .message = i % 3});
  }
  return costs;
}

template <class Policy>
class Clock : public testing::Test {};
using Policies = testing::Types<GPipe, OneFOneB, Interleaved<2>, Interleaved<4>, ZeroBubbleH1, ZeroBubbleH2,
                                ZeroBubbleV, DualPipeV>;
TYPED_TEST_SUITE(Clock, Policies);

TYPED_TEST(Clock, OfEightRanksAndSixtyFourMicrobatchesIsTheSimulators) {
  const Pipeline pipeline = schedule::make_pipeline<TypeParam>(8, 64);
  expect_what_the_simulator_says(pipeline, std::vector<Cost>(pipeline.stages()));
  EXPECT_EQ(execute(pipeline, std::vector<Cost>(pipeline.stages())).makespan, TypeParam::makespan(8, 64));
}

TYPED_TEST(Clock, WithUnevenCostsAndMessagesIsTheSimulators) {
  for (const int microbatches : {8, 24, 64}) {
    if (schedule::refusal<TypeParam>(8, microbatches) != nullptr) continue;
    const Pipeline pipeline = schedule::make_pipeline<TypeParam>(8, microbatches);
    expect_what_the_simulator_says(pipeline, uneven(pipeline.stages()));
  }
}

TEST(ClockOfOneFOneB, OfSixtyFourRanksAndFiveHundredTwelveMicrobatchesIsTheSimulators) {
  const Pipeline pipeline = schedule::make_pipeline<OneFOneB>(64, 512);
  expect_what_the_simulator_says(pipeline, std::vector<Cost>(64));
  expect_what_the_simulator_says(pipeline, uneven(64));
}

}  // namespace
}  // namespace trilith::test
