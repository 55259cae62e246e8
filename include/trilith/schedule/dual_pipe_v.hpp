// DualPipeV: the V of ZB-V, where a forward of one chunk and a backward of the other run as one overlapped
// action, so that the communication inside each hides behind the computation of the other.
//
// DeepSeek-AI, "DeepSeek-V3 technical report", 2024 (DualPipe), and its halved form in DualPipe's repository.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <trilith/schedule/action.hpp>

namespace trilith::inline v0 {

struct DualPipeV {
  static constexpr const char* name = "DualPipeV";
  static constexpr int chunks = 2;

  static constexpr int stage_of(int rank, int chunk, int ranks) {
    return chunk == 0 ? rank : 2 * ranks - 1 - rank;
  }

// (condition over p ranks and m microbatches; sentence)
#define TRILITH_DUAL_PIPE_V_CONDITIONS(CONDITION) \
  CONDITION(m >= 2 * p, "DualPipeV: there must be at least 2p microbatches; use ZeroBubbleV for fewer")

  static constexpr const char* refusal(int p, int m) {
#define TRILITH_REFUSE(condition, sentence) \
  if (!(condition)) return sentence;
    TRILITH_DUAL_PIPE_V_CONDITIONS(TRILITH_REFUSE)
#undef TRILITH_REFUSE
    return nullptr;
  }

  // Does not compile where it refuses.
  template <int p, int m>
  struct Accepts {
#define TRILITH_ASSERT(condition, sentence) static_assert(condition, sentence);
    TRILITH_DUAL_PIPE_V_CONDITIONS(TRILITH_ASSERT)
#undef TRILITH_ASSERT
  };

#undef TRILITH_DUAL_PIPE_V_CONDITIONS

  static constexpr int peak_in_flight(int /*rank*/, int ranks, int /*microbatches*/) {
    return 2 * ranks + 1;
  }

  // Where a fused pair costs the sum.
  static constexpr std::int64_t makespan(int ranks, int microbatches) {
    return 6 * std::int64_t{microbatches} + 2 * (ranks - 1);
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    const int ahead = ranks - 1 - rank;
    const bool last = rank == ranks - 1;
    Passes passes;
    passes.actions.reserve(6 * static_cast<std::size_t>(microbatches));

    // 1. 2(p − 1 − r) times F0.
    for (int k = 0; k < 2 * ahead; ++k) passes.forward(0);
    // 2. r + 1 times F0 F1.
    for (int k = 0; k < rank + 1; ++k) {
      passes.forward(0);
      passes.forward(1);
    }
    // 3. p − 1 − r times I1 W F1.
    for (int k = 0; k < ahead; ++k) {
      passes.input(1);
      passes.weight();
      passes.forward(1);
    }
    // 4. m − 2p + r + 1 times F0&B1, F1&B0; the last rank's first F0 and B1 apart.
    for (int k = 0; k < microbatches - 2 * ranks + rank + 1; ++k) {
      passes.forward(0, !(last && k == 0));
      passes.backward(1);
      passes.forward(1, true);
      passes.backward(0);
    }
    // 5. p − 1 − r times B1, F1&B0.
    for (int k = 0; k < ahead; ++k) {
      passes.backward(1);
      passes.forward(1, true);
      passes.backward(0);
    }
    // 6. r + 1 times B1 B0: of these 2(r + 1) passes the first r + 1 whole, of the rest only the input part.
    for (int pass = 0; pass < 2 * (rank + 1); ++pass) {
      const int chunk = pass % 2 == 0 ? 1 : 0;
      if (pass < rank + 1) {
        passes.backward(chunk);
      } else {
        passes.input(chunk);
      }
    }
    // 7. p − 1 − r times W I0.
    for (int k = 0; k < ahead; ++k) {
      passes.weight();
      passes.input(0);
    }
    // 8. r + 1 times W.
    for (int k = 0; k < rank + 1; ++k) passes.weight();
    return passes.actions;
  }

 private:
  // Passes ascend by microbatch in each chunk; weight parts that stand apart come first in, first out.
  struct Passes {
    schedule::Program actions = {};
    std::array<int, 2> f = {}, b = {};           // per chunk: the next microbatch
    std::vector<std::pair<int, int>> owed = {};  // (microbatch, chunk) of weight parts
    std::size_t paid = 0;

    constexpr void forward(int chunk, bool fused = false) {
      actions.push_back({schedule::Pass::forward, f[chunk]++, chunk, fused});
    }
    constexpr void backward(int chunk) { actions.push_back({schedule::Pass::backward, b[chunk]++, chunk}); }
    constexpr void input(int chunk) {
      owed.emplace_back(b[chunk], chunk);
      actions.push_back({schedule::Pass::backward_input, b[chunk]++, chunk});
    }
    constexpr void weight() {
      const auto [microbatch, chunk] = owed[paid++];
      actions.push_back({schedule::Pass::backward_weight, microbatch, chunk});
    }
  };
};

}  // namespace trilith::inline v0
