// A split as a user may write one: rank r holds every P-th pair of neighbouring positions, from pair r on.
#pragma once

#include <algorithm>

#include <trilith/core/tensor.hpp>

namespace trilith::test {

struct PairsOfRows {
  static constexpr const char* name = "PairsOfRows";
  static constexpr const char* rule = "sequence length must be divisible by 2 * CP";

  static constexpr Index multiple(int ranks) { return 2 * ranks; }

  static constexpr Index position(int rank, Index row, int ranks, Index /*length*/) {
    return (row / 2 * ranks + rank) * 2 + row % 2;
  }

  static constexpr Index rows_below(int rank, Index position, int ranks, Index /*length*/) {
    const Index round = position / (2 * ranks);
    return 2 * round + std::clamp<Index>(position - 2 * (round * ranks + rank), 0, 2);
  }
};

}  // namespace trilith::test
