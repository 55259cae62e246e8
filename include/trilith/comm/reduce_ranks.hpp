// The kernel of reductions over ranks whose buffers one GPU can reach.
#pragma once

#include <algorithm>
#include <type_traits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

struct SumOfRanks {
  template <class T>
  static TRILITH_HOST_DEVICE T apply(T a, T b) {
    return a + b;
  }
};
struct MaxOfRanks {
  template <class T>
  static TRILITH_HOST_DEVICE T apply(T a, T b) {
    return a > b || a != a ? a : b;  // NaN stays
  }
};

// What a reduction reads and writes.
template <class T>
struct RankBuffers {
  static constexpr int most = 64;
  simt::Global<const T> in[most] = {};  // one for each rank
  simt::Global<T> out[most] = {};
  int inputs = 0;
  int outputs = 0;
  Index count = 0;
};

// out[k](i) = the reduction of in[r](i) over all r, ascending, for i < count and every output k. A thread
// reads an element of all inputs before it writes it, so outputs may be inputs. N elements at once: each span
// begins at a multiple of their size. 16-bit elements are added in float32 and rounded once.
template <class T, class Op, int N>
struct ReduceRanks {
  static constexpr const char* name = "reduce_ranks";
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_multiprocessor = 5;
  using Params = RankBuffers<T>;

  // Some threads go over several packs: ranks that share a GPU share it with what they compute, too.
  static constexpr simt::Dim3 grid(Index count) {
    constexpr Index most_blocks = 256;
    return {.x = static_cast<int>(std::clamp<Index>(ceil_divide(count, Index{N} * threads), 1, most_blocks))};
  }

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Index step = Index{lane.grid().x} * threads * N;
    for (Index i = (Index{lane.block().x} * threads + lane.thread()) * N; i < p.count; i += step) {
      if (i + N <= p.count) {
        reduce(lane, simt::Width<N>{}, i, p);
      } else {
        for (Index rest = i; rest < p.count; ++rest) reduce(lane, simt::Width<1>{}, rest, p);
      }
    }
  }

 private:
  using Total = std::conditional_t<half<T>, float, T>;

  template <simt::lane Lane, int W>
  static TRILITH_DEVICE void reduce(Lane& lane, simt::Width<W> width, Index i, const Params& p) {
    Total total[W];
    simt::Pack<T, W> pack = lane.load(p.in[0], i, width);
    TRILITH_UNROLL
    for (int k = 0; k < W; ++k) total[k] = static_cast<Total>(pack[k]);
    for (int rank = 1; rank < p.inputs; ++rank) {
      pack = lane.load(p.in[rank], i, width);
      TRILITH_UNROLL
      for (int k = 0; k < W; ++k) total[k] = Op::apply(total[k], static_cast<Total>(pack[k]));
    }
    TRILITH_UNROLL
    for (int k = 0; k < W; ++k) pack[k] = T(total[k]);
    for (int output = 0; output < p.outputs; ++output) lane.store(p.out[output], i, pack);
  }
};

}  // namespace trilith::inline v0::kernels
