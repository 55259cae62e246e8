// What one lane holds of the matrices of mma m16n8k16 and ldmatrix, and where those elements lie.
//
// Layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "Warp-level matrix load
// instruction: ldmatrix". `lane` is the lane's index in its warp, 0 to 31, `i` the index of an element in the
// lane's fragment.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>

namespace trilith::inline v0::simt {

// N registers of two 16-bit elements each, element 2r in the lower half of register r.
template <half T, int N>
struct Pairs {
  std::uint32_t x[N];

  TRILITH_HOST_DEVICE float operator[](int i) const {
    T element;
    element.bits = static_cast<std::uint16_t>(x[i / 2] >> (i % 2 * 16));
    return static_cast<float>(element);
  }

  // `count` registers from `first` on: ldmatrix x4 loads two B fragments at once.
  template <int Count>
  TRILITH_HOST_DEVICE Pairs<T, Count> part(int first) const {
    Pairs<T, Count> result;
    TRILITH_UNROLL
    for (int r = 0; r < Count; ++r) result.x[r] = x[first + r];
    return result;
  }
};

template <half T>
using FragmentA = Pairs<T, 4>;  // of (16, 16), row by row
template <half T>
using FragmentB = Pairs<T, 2>;  // of (16, 8), column by column

struct Accumulator {  // of (16, 8)
  float x[4];

  TRILITH_HOST_DEVICE float& operator[](int i) { return x[i]; }
  TRILITH_HOST_DEVICE const float& operator[](int i) const { return x[i]; }
};

struct Position {
  int row;
  int column;
  friend constexpr bool operator==(const Position&, const Position&) = default;
};

TRILITH_HOST_DEVICE constexpr Position position_in_a(int lane, int i) {
  return {lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8};
}

TRILITH_HOST_DEVICE constexpr Position position_in_b(int lane, int i) {
  return {lane % 4 * 2 + i % 2 + i / 2 * 8, lane / 4};
}

TRILITH_HOST_DEVICE constexpr Position position_in_accumulator(int lane, int i) {
  return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}

// ldmatrix loads N matrices of 8 rows of 8 elements. Lane 8m + r gives the address of row r of matrix m.
template <int N>
struct Matrices {
  static_assert(N == 1 || N == 2 || N == 4, "Matrices<N>: ldmatrix loads 1, 2 or 4 matrices");
};

// Matrix m comes in register m; this is where in the matrix the register's elements i = 0 and 1 lie.
TRILITH_HOST_DEVICE constexpr Position position_in_matrix(int lane, int i) {
  return {lane / 4, lane % 4 * 2 + i};
}

}  // namespace trilith::inline v0::simt
