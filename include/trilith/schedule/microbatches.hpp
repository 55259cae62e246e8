// Microbatches<M> makes the number of microbatches of a step a constant of the program, so that the compiler
// proves the schedule (schedule/proof.hpp). Without it the number is a value that a trainer is given.
#pragma once

namespace trilith::inline v0 {

struct RuntimeMicrobatches;

struct MicrobatchesCategory {
  using default_policy = RuntimeMicrobatches;
};

struct RuntimeMicrobatches {
  using category = MicrobatchesCategory;
};

template <int M>
struct Microbatches {
  static_assert(M >= 1, "Microbatches<M>: a step has at least one microbatch");
  using category = MicrobatchesCategory;
  static constexpr int count = M;
};

}  // namespace trilith::inline v0
