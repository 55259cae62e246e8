// The sizes over which tests sweep a schedule, and what a simulation of it must come to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>

namespace trilith::schedule::test {

// p up to 16 and m up to 64, where the policy has a program.
template <schedule_policy Policy, class Check>
void for_each_size(Check&& check) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int microbatches = 1; microbatches <= 64; ++microbatches) {
      if (refusal<Policy>(ranks, microbatches) != nullptr) continue;
      SCOPED_TRACE(testing::Message() << Policy::name << ", " << Policy::chunks << " chunks, p=" << ranks
                                      << ", m=" << microbatches);
      check(ranks, microbatches);
    }
  }
}

// Uneven in every way: each part the cheapest, each the costliest.
inline constexpr std::array<Cost, 6> uneven_costs{{
    {.forward = 1, .backward_input = 2, .backward_weight = 1},
    {.forward = 2, .backward_input = 1, .backward_weight = 3},
    {.forward = 3, .backward_input = 5, .backward_weight = 2},
    {.forward = 5, .backward_input = 1, .backward_weight = 1},
    {.forward = 1, .backward_input = 1, .backward_weight = 4},
    {.forward = 2, .backward_input = 3, .backward_weight = 7},
}};

// Of one microbatch in one chunk.
constexpr Time work(const Cost& cost) {
  return cost.forward + cost.backward_input + cost.backward_weight;
}

// The time that each rank is idle, where all have the same work.
template <schedule_policy Policy>
Time idle(int ranks, int microbatches, const Cost& cost) {
  return simulate<Policy>(ranks, microbatches, cost).makespan -
         Time{microbatches} * Policy::chunks * work(cost);
}

template <schedule_policy Policy>
std::vector<int> peaks(int ranks, int microbatches) {
  return simulate<Policy>(ranks, microbatches).peak_in_flight;
}

// Runs to its end, each rank works as long as it must, none holds more than it promises, and, where the
// policy knows its makespan, it takes that.
template <schedule_policy Policy>
void expect_closed_forms() {
  for_each_size<Policy>([](int ranks, int microbatches) {
    const Simulation s = simulate<Policy>(ranks, microbatches);
    const Time each = 3 * Time{microbatches} * Policy::chunks;
    EXPECT_TRUE(s.complete);
    EXPECT_EQ(s.busy, std::vector<Time>(ranks, each));
    if (const std::int64_t expected = Policy::makespan(ranks, microbatches)) {
      EXPECT_EQ(s.makespan, expected);
      EXPECT_EQ(s.bubble(), (Ratio{expected - each, expected}));
      EXPECT_EQ(s.bubble_of_ideal(), (Ratio{expected - each, each}));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_LE(s.peak_in_flight[rank], Policy::peak_in_flight(rank, ranks, microbatches)) << "rank " << rank;
    }
  });
}

}  // namespace trilith::schedule::test
