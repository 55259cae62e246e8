// A schedule is a policy: a type that says which stages a rank holds and yields the program of each rank.
// Schedule<P> puts it into a Config. Nothing outside its own header knows a policy's name.
#pragma once

#include <concepts>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/one_f_one_b.hpp>

namespace trilith::inline v0 {

// What a schedule supplies, all of it constexpr:
//   name                                   for messages
//   chunks                                 stages that one rank holds
//   stage_of(rank, chunk, ranks)           placement; each stage 0 … ranks·chunks − 1 exactly once
//   program(rank, ranks, microbatches)     the rank's actions, in order
//   peak_in_flight(rank, ranks, microbatches)  the most microbatches, counted per chunk, that the rank
//                                          promises to hold between their forward and their last backward
// and, if it has them:
//   refusal(ranks, microbatches)           a sentence where its conditions don't hold, else null
//   Accepts<ranks, microbatches>           a template whose static_asserts are the sentences of refusal
//   makespan(ranks, microbatches)          in unit costs, 0 where no closed form is known
//   programs(ranks, microbatches)          of all ranks, where it is cheaper to make them together
template <class P>
concept schedule_policy = requires(int rank, int ranks, int chunk, int microbatches) {
  P::name;
  { P::chunks } -> std::convertible_to<int>;
  { P::stage_of(rank, chunk, ranks) } -> std::same_as<int>;
  { P::program(rank, ranks, microbatches) } -> std::same_as<schedule::Program>;
  { P::peak_in_flight(rank, ranks, microbatches) } -> std::same_as<int>;
};

template <class Policy>
struct Schedule;

struct ScheduleCategory {
  using default_policy = Schedule<OneFOneB>;
};

template <class Policy>
struct Schedule {
  static_assert(schedule_policy<Policy>,
                "Schedule<P>: P must be a schedule such as OneFOneB or GPipe: a type with name, chunks, "
                "stage_of, program and peak_in_flight (see schedule/policy.hpp)");
  using category = ScheduleCategory;
  using schedule = Policy;
};

namespace schedule {

template <schedule_policy Policy>
constexpr Program program(int rank, int ranks, int microbatches) {
  return Policy::program(rank, ranks, microbatches);
}

template <schedule_policy Policy>
constexpr int stage_of(int rank, int chunk, int ranks) {
  return Policy::stage_of(rank, chunk, ranks);
}

// Why a policy has no program for these numbers, or null.
template <schedule_policy Policy>
constexpr const char* refusal(int ranks, int microbatches) {
  if (ranks < 1) return "a pipeline has at least one rank";
  if (microbatches < 1) return "a step has at least one microbatch";
  if constexpr (requires { Policy::refusal(ranks, microbatches); }) {
    return Policy::refusal(ranks, microbatches);
  }
  return nullptr;
}

}  // namespace schedule
}  // namespace trilith::inline v0
