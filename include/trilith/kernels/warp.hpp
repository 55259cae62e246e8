// Reductions over the lanes of a warp. The order of additions is fixed, so results repeat bit by bit, and
// every lane gets the same.
#pragma once

#include <bit>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

template <simt::lane Lane>
TRILITH_DEVICE float exchange(Lane& lane, float mine, int mask) {
  return lane.shuffle_xor(mine, mask);
}
template <simt::lane Lane>
TRILITH_DEVICE std::int32_t exchange(Lane& lane, std::int32_t mine, int mask) {
  return lane.shuffle_xor(mine, mask);
}
template <simt::lane Lane>
TRILITH_DEVICE double exchange(Lane& lane, double mine, int mask) {
  const auto bits = std::bit_cast<std::uint64_t>(mine);
  const std::uint32_t low = lane.shuffle_xor(static_cast<std::uint32_t>(bits), mask);
  const std::uint32_t high = lane.shuffle_xor(static_cast<std::uint32_t>(bits >> 32), mask);
  return std::bit_cast<double>(std::uint64_t{high} << 32 | low);
}
template <int N, simt::lane Lane>
TRILITH_DEVICE Floats<N> exchange(Lane& lane, const Floats<N>& mine, int mask) {
  Floats<N> theirs;
  TRILITH_UNROLL
  for (int i = 0; i < N; ++i) theirs[i] = lane.shuffle_xor(mine[i], mask);
  return theirs;
}

struct Sum {
  template <class V>
  TRILITH_DEVICE V operator()(const V& a, const V& b) const {
    return a + b;
  }
};

struct Maximum {
  template <class T>
  TRILITH_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

struct Minimum {
  template <class T>
  TRILITH_DEVICE T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

// Over the warp, or over groups of `Lanes` neighbours: a quad holds a row of an accumulator. Lanes near each
// other combine first, as in kernels/block_reduce.hpp.
template <int Lanes = simt::warp_size, simt::lane Lane, class V, class Combine>
TRILITH_DEVICE V warp_reduce(Lane& lane, V mine, Combine combine) {
  TRILITH_UNROLL
  for (int mask = 1; mask < Lanes; mask *= 2) {
    mine = combine(mine, exchange(lane, mine, mask));
  }
  return mine;
}

// x, which all lanes have, so that the compiler knows they have it: it then keeps x, and what follows from
// it, in registers of the warp.
template <simt::lane Lane, class T>
TRILITH_DEVICE T uniform(Lane& lane, T x) {
  return lane.shuffle(x, 0);
}

}  // namespace trilith::inline v0::kernels
