// Does not compile: each case is a schedule with one fault, or numbers that one refuses.
#include <cstddef>
#include <utility>

#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/microbatches.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/proof.hpp>

namespace trilith {

using schedule::Pass;
using schedule::Program;
using schedule::Proof;

// 1F1B, of which each case breaks a part. Rank 1 of 3 with 4 microbatches: F0 F1 B0 F2 B1 F3 B2 B3.
struct Faultless {
  static constexpr const char* name = "Mine";
  static constexpr int chunks = 1;
  static constexpr int stage_of(int rank, int /*chunk*/, int /*ranks*/) { return rank; }
  static constexpr int peak_in_flight(int rank, int ranks, int microbatches) {
    return OneFOneB::peak_in_flight(rank, ranks, microbatches);
  }
  static constexpr Program program(int rank, int ranks, int microbatches) {
    return OneFOneB::program(rank, ranks, microbatches);
  }
};
static_assert(Proof<Faultless, 3, 4>::slots[1][0] == 2);

#ifdef STAGE_TWICE
struct Mine : Faultless {
  static constexpr int stage_of(int rank, int, int) { return rank / 2; }
};
#endif

#ifdef MISSING_BACKWARD
struct Mine : Faultless {
  static constexpr Program program(int rank, int ranks, int microbatches) {
    Program program = Faultless::program(rank, ranks, microbatches);
    if (rank == 1) program.pop_back();
    return program;
  }
};
#endif

#ifdef FORWARD_TWICE
struct Mine : Faultless {
  static constexpr Program program(int rank, int ranks, int microbatches) {
    Program program = Faultless::program(rank, ranks, microbatches);
    program[1].microbatch = 0;
    return program;
  }
};
#endif

// Its forward and its backward.
#ifdef SWAPPED_PAIR
struct Mine : Faultless {
  static constexpr Program program(int rank, int ranks, int microbatches) {
    Program program = Faultless::program(rank, ranks, microbatches);
    if (rank == 2) std::swap(program[0], program[1]);
    return program;
  }
};
#endif

#ifdef DESCENDING_GRADIENTS
struct Mine : Faultless {
  static constexpr Program program(int rank, int ranks, int microbatches) {
    Program program = Faultless::program(rank, ranks, microbatches);
    if (rank == 1) std::swap(program[6], program[7]);
    return program;
  }
};
#endif

// Rank 0 runs microbatch 1 only after the gradient of 0, which rank 2 makes only after it has had
// microbatch 1.
#ifdef CYCLE
struct Mine : Faultless {
  static constexpr int peak_in_flight(int, int, int microbatches) { return microbatches; }
  static constexpr Program program(int rank, int ranks, int microbatches) {
    if (rank == 2) return GPipe::program(rank, ranks, microbatches);
    return OneFOneB::program(2, ranks, microbatches);
  }
};
#endif

#ifdef ONE_TOO_MANY_IN_FLIGHT
struct Mine : Faultless {
  static constexpr Program program(int rank, int ranks, int microbatches) {
    Program program = Faultless::program(rank, ranks, microbatches);
    if (rank == 1) std::swap(program[2], program[3]);
    return program;
  }
};
#endif

#ifdef REFUSED_IN_A_SENTENCE_AT_RUN_TIME
struct Mine : Faultless {
  static constexpr const char* refusal(int, int) { return "Mine: no"; }
};
#endif

#ifdef ONE_RANK_INTERLEAVED
constexpr auto slots = Proof<Interleaved<2>, 1, 4>::slots;
#elif defined GROUP_TOO_SMALL
constexpr auto slots = Proof<Interleaved<2, 3>, 4, 6>::slots;
#elif defined NO_WHOLE_GROUP
constexpr auto slots = Proof<Interleaved<2>, 4, 3>::slots;
#elif defined LAST_GROUP_TOO_SMALL
constexpr auto slots = Proof<Interleaved<2, 4>, 4, 6>::slots;
#elif defined LAST_GROUP_WOULD_DEADLOCK
constexpr auto slots = Proof<Interleaved<3, 4>, 4, 5>::slots;
#elif defined DUAL_PIPE_V_OF_TOO_FEW
constexpr auto slots = Proof<DualPipeV, 4, 7>::slots;
#elif defined NO_CHUNK
constexpr int chunks = Interleaved<0>::chunks;
#elif defined NO_MICROBATCH
constexpr int count = Microbatches<0>::count;
#else
constexpr auto slots = Proof<Mine, 3, 4>::slots;
#endif

}  // namespace trilith
