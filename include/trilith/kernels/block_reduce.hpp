// Reductions over the threads of a block. The order of additions is fixed, so results repeat
// bit by bit, and every thread gets the same.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

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
