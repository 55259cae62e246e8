// Reductions over the threads of a block, by CUB where nvcc compiles. Their order is fixed, so results repeat
// bit by bit, and every thread gets the same.
//
// It is the order of CUB's BLOCK_REDUCE_WARP_REDUCTIONS, from which thread 0 gets the result: within a warp,
// lanes combine with those 1, 2, 4, 8 and 16 above (cub/warp/specializations/warp_reduce_shfl.cuh); then
// thread 0 combines the warps, ascending (cub/block/specializations/block_reduce_warp_reductions.cuh). A host
// compiler has no CUB, so for the emulator that order is written out here, and both give the same bits.
#pragma once

#if defined(__CUDACC__)
#include <cub/block/block_reduce.cuh>
#endif

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Over the `Warps` warps of a block, as often as is wanted. Of one warp it needs no shared memory.
template <class V, int Warps>
class BlockReduction {
  // What the warps hand to thread 0, and on the device what else CUB has beside it.
  static constexpr int handed = 2 * Warps;

 public:
  static constexpr int shared_bytes = Warps == 1 ? 0 : (handed + 1) * static_cast<int>(sizeof(V));

  template <simt::lane Lane>
  TRILITH_DEVICE explicit BlockReduction(Lane& lane) {
    if constexpr (Warps > 1) {
      const auto shared = lane.shared(simt::Array<V, handed + 1>{});
      handed_ = shared.part(0, handed);
      result_ = shared.part(handed, 1);
    }
  }

  // Two barriers are enough for any number of reductions: thread 0 has read what it was handed before the
  // second, and all have read the result before the first of the next.
  template <simt::lane Lane, class Combine>
  TRILITH_DEVICE V operator()(Lane& lane, V mine, Combine combine) {
    if constexpr (Warps == 1) {
      return warp_reduce(lane, mine, combine);
    } else {
      const V result = to_thread_0(lane, mine, combine);
      if (lane.thread() == 0) lane.store(result_, 0, result);
      lane.barrier();
      return lane.load(result_, 0);
    }
  }

 private:
  // The result, in thread 0 alone. Has one barrier, after which only thread 0 reads.
#if defined(__CUDACC__)
  template <simt::lane Lane, class Combine>
  TRILITH_DEVICE V to_thread_0(Lane&, V mine, Combine combine) {
    using Reduce = cub::BlockReduce<V, Warps * simt::warp_size, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    using Storage = typename Reduce::TempStorage;
    static_assert(sizeof(Storage) <= handed * sizeof(V),
                  "BlockReduction<V, Warps>: CUB's TempStorage must fit into what is kept for it");
    return Reduce(*reinterpret_cast<Storage*>(handed_.data)).Reduce(mine, combine);
  }
#else
  template <simt::lane Lane, class Combine>
  TRILITH_DEVICE V to_thread_0(Lane& lane, V mine, Combine combine) {
    mine = warp_reduce(lane, mine, combine);
    if (lane.index() == 0) lane.store(handed_, lane.warp(), mine);
    lane.barrier();
    if (lane.thread() == 0) {
      for (int warp = 1; warp < Warps; ++warp) mine = combine(mine, lane.load(handed_, warp));
    }
    return mine;
  }
#endif

  simt::Shared<V> handed_;
  simt::Shared<V> result_;
};

}  // namespace trilith::inline v0::kernels
