// Proof<Policy, p, m> does not compile where the policy's programs for p ranks and m microbatches break a
// law, or its conditions don't hold. The first error is the law's sentence; the type in which it stands shows
// rank and action: Lawful<Verdict{Law::in_flight, 0, 3}, …>.
//
// A proof is several constant expressions, so that each stays below the limits that compilers set by default.
// The tightest are clang's 2²⁰ steps, of which the exchanges of ZeroBubbleV take some 3000 for each
// microbatch of a stage: hence provable(). Above it the same functions run when a trainer is made.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/laws.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>

namespace trilith::inline v0::schedule {

// Whether a compiler can be asked, with its default limits.
constexpr bool provable(int ranks, int microbatches, int chunks) {
  return ranks <= 16 && chunks <= 256 && microbatches <= 256 / (ranks * chunks);
}

// Does not compile where the policy refuses: with its own sentences, if it has Accepts<p, m>.
template <schedule_policy Policy, int Ranks, int M>
struct Conditions {
  static_assert(refusal<Policy>(Ranks, M) == nullptr,
                "the schedule has no program for these p and m; its refusal(p, m) says what would be right");
};
template <schedule_policy Policy, int Ranks, int M>
requires requires {
  sizeof(typename Policy::template Accepts<Ranks, M>);
}
struct Conditions<Policy, Ranks, M> : Policy::template Accepts<Ranks, M> {};

template <schedule_policy Policy, int Ranks, int M>
class Proof {
 public:
  static constexpr bool accepted = refusal<Policy>(Ranks, M) == nullptr;

 private:
  static constexpr Conditions<Policy, Ranks, M> conditions{};

  static constexpr Pipeline pipeline() { return make_pipeline<Policy>(Ranks, M); }

  static constexpr Verdict programs = accepted ? verify_programs(pipeline()) : Verdict{};
  static constexpr bool runs = accepted && programs.law == Law::none;

  static constexpr std::size_t actions = [] {
    std::size_t count = 0;
    if (runs) {
      for (const Program& program : pipeline().programs) count += program.size();
    }
    return count;
  }();

  // In unit costs, rank by rank: what the exchanges follow from.
  struct Run {
    std::array<Span, actions> spans{};
    bool complete = true;
    Time makespan = 0;
  };
  static constexpr Run run = [] {
    Run result;
    if (!runs) return result;
    const Simulation simulation = simulate(pipeline());
    std::size_t next = 0;
    for (const std::vector<Span>& line : simulation.timeline) {
      for (const Span& span : line) result.spans[next++] = span;
    }
    result.complete = simulation.complete;
    result.makespan = simulation.makespan;
    return result;
  }();

  static constexpr Simulation simulation(const Pipeline& pipeline) {
    Simulation result{.makespan = run.makespan, .complete = run.complete};
    const Span* next = run.spans.data();
    for (const Program& program : pipeline.programs) {
      result.timeline.emplace_back(next, next + program.size());
      next += program.size();
    }
    return result;
  }

 public:
  static constexpr Verdict verdict = [] {
    if (!runs) return programs;
    const Pipeline all = pipeline();
    const Simulation simulated = simulation(all);
    const Verdict progress = verify_progress(all, simulated);
    return progress.law != Law::none ? progress : verify_exchanges(all, exchanges(all, simulated));
  }();

  // Microbatches that each chunk of each rank holds at once: the slots of its activations.
  static constexpr auto slots = [] {
    std::array<std::array<int, Policy::chunks>, Ranks> peaks{};
    const Pipeline all = runs ? pipeline() : Pipeline{};
    for (int rank = 0; rank < static_cast<int>(all.programs.size()); ++rank) {
      std::array<int, Policy::chunks> held{};
      for (const Action& action : all.programs[rank]) {
        int& here = held[action.chunk];
        if (action.pass == Pass::forward && ++here > peaks[rank][action.chunk])
          peaks[rank][action.chunk] = here;
        if (releases_activations(action.pass)) --here;
      }
    }
    return peaks;
  }();

  static constexpr Lawful<verdict, Policy, Ranks, M> lawful{};
};

}  // namespace trilith::inline v0::schedule
