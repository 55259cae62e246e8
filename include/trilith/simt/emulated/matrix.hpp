// mma and ldmatrix, computed for a whole warp from what each of its lanes brought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <trilith/core/half.hpp>
#include <trilith/simt/fragment.hpp>

namespace trilith::inline v0::simt {

template <half T>
struct MmaOperand {
  Accumulator* d;
  const FragmentA<T>* a;
  const FragmentB<T>* b;
};

// d += a · b. Products are exact in float32, and are added in ascending k. A tensor core adds them in an
// order and with a rounding that PTX leaves open, so its last bits differ.
template <half T>
void warp_mma(const MmaOperand<T>* const* lanes) {
  float a[16][16];
  float b[16][8];
  float d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const Position p = position_in_a(lane, i);
      a[p.row][p.column] = (*lanes[lane]->a)[i];
    }
    for (int i = 0; i < 4; ++i) {
      const Position p = position_in_b(lane, i);
      b[p.row][p.column] = (*lanes[lane]->b)[i];
      const Position q = position_in_accumulator(lane, i);
      d[q.row][q.column] = (*lanes[lane]->d)[i];
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const Position p = position_in_accumulator(lane, i);
      (*lanes[lane]->d)[i] = d[p.row][p.column];
    }
  }
}

struct LdmatrixOperand {
  const std::byte* row;  // of lanes that give one
  std::uint32_t x[4];
};

inline void warp_ldmatrix(LdmatrixOperand* const* lanes, int matrices, bool transposed) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < matrices; ++m) {
      std::uint16_t pair[2];
      for (int i = 0; i < 2; ++i) {
        const Position p = position_in_matrix(lane, i);
        const int row = transposed ? p.column : p.row;
        const int column = transposed ? p.row : p.column;
        std::memcpy(&pair[i], lanes[8 * m + row]->row + 2 * column, 2);
      }
      lanes[lane]->x[m] = pair[0] | (static_cast<std::uint32_t>(pair[1]) << 16);
    }
  }
}

}  // namespace trilith::inline v0::simt
