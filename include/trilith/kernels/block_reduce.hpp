// Reductions over the threads of a warp and of a block. The order of additions is fixed, so results repeat
// bit by bit, and every thread gets the same.
#pragma once

#include <bit>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <simt::lane Lane>
TRILITH_DEVICE float exchange(Lane& lane, float mine, int mask) {
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
  TRILITH_DEVICE float operator()(float a, float b) const { return a > b ? a : b; }
};

template <simt::lane Lane, class V, class Combine>
TRILITH_DEVICE V warp_reduce(Lane& lane, V mine, Combine combine) {
  TRILITH_UNROLL
  for (int mask = simt::warp_size / 2; mask > 0; mask /= 2) {
    mine = combine(mine, exchange(lane, mine, mask));
  }
  return mine;
}

// Over the `Warps` warps of a block, as often as is wanted. Of one warp it needs no shared memory.
template <class V, int Warps>
class BlockReduction {
 public:
  static constexpr int shared_bytes = Warps == 1 ? 0 : 2 * Warps * static_cast<int>(sizeof(V));

  template <simt::lane Lane>
  TRILITH_DEVICE explicit BlockReduction(Lane& lane) {
    if constexpr (Warps > 1) of_warps_ = lane.shared(simt::Array<V, 2 * Warps>{});
  }

  template <simt::lane Lane, class Combine>
  TRILITH_DEVICE V operator()(Lane& lane, V mine, Combine combine) {
    mine = warp_reduce(lane, mine, combine);
    if constexpr (Warps == 1) return mine;
    // In turns, so that one barrier is enough: who writes the same half again has met those that read it.
    const int first = half_ * Warps;
    half_ = 1 - half_;
    if (lane.index() == 0) lane.store(of_warps_, first + lane.warp(), mine);
    lane.barrier();
    V result = lane.load(of_warps_, first);
    TRILITH_UNROLL
    for (int warp = 1; warp < Warps; ++warp) result = combine(result, lane.load(of_warps_, first + warp));
    return result;
  }

 private:
  simt::Shared<V> of_warps_;
  int half_ = 0;
};

}  // namespace trilith::inline v0::kernels
