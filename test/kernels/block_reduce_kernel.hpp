// A kernel that reduces twice in a row.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/block_reduce.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::test {

// One block; results(i, thread) = x(i, 0) ∘ x(i, 1) ∘ …, as this thread gets it.
template <class V, int Warps, class Combine>
struct ReduceTwice {
  static constexpr const char* name = "reduce_twice";
  static constexpr int threads = Warps * simt::warp_size;
  using Reduction = kernels::BlockReduction<V, Warps>;
  static constexpr int shared_bytes = Reduction::shared_bytes;
  struct Params {
    simt::Global<const V> x;  // (2, threads)
    simt::Global<V> results;  // (2, threads)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    Reduction reduce(lane);
    for (int i = 0; i < 2; ++i) {
      const int mine = i * threads + lane.thread();
      lane.store(p.results, mine, reduce(lane, lane.load(p.x, mine), Combine{}));
    }
  }
};

}  // namespace trilith::test
