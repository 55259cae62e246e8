// Sums over the rows of a matrix, column by column, in one pass and without memory for partial sums: a block
// takes all rows of 32 columns. Its threads share out the rows and add their sums in a fixed order.
//
//   struct Terms {
//     static constexpr const char* name = "sums";
//     static constexpr int count = 2;     // of sums
//     struct Params { … };
//     // Adds the terms of columns column to column + N − 1 of a row to sums[0], sums[1].
//     template <simt::lane Lane, int N>
//     TRILITH_DEVICE void operator()(Lane&, Index row, Index column, const Params&, Floats<N>* sums) const;
//   };
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <class Terms, int N>
struct ColumnSums {
  static constexpr const char* name = Terms::name;
  static constexpr int threads = 512;
  static constexpr int columns = 32;  // of a block: 64 bytes or more of a row, in one piece
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int shared_bytes = Terms::count * warps * columns * static_cast<int>(sizeof(float));
  struct Params {
    Index rows;
    Index columns;  // a multiple of N
    bool accumulate;
    typename Terms::Params terms;
    simt::Global<float> sums[Terms::count];  // (columns), overwritten or added to
  };

  static constexpr simt::Dim3 grid(Index all_columns) {
    return {.x = static_cast<int>(ceil_divide(all_columns, Index{columns}))};
  }

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    constexpr int across = columns / N;  // threads that share a row
    const Index first = Index{lane.block().x} * columns;
    const int column = lane.thread() % across * N;
    Floats<N> sums[Terms::count];
    TRILITH_UNROLL
    for (int i = 0; i < Terms::count; ++i) sums[i] = all_equal<N>(0.0f);
    if (first + column < p.columns) {
      constexpr Index step = threads / across;
      constexpr int batch = 4;  // rows whose loads are under way at once
      Index row = lane.thread() / across;
      for (; row + (batch - 1) * step < p.rows; row += batch * step) {
        TRILITH_UNROLL
        for (int i = 0; i < batch; ++i) Terms{}(lane, row + i * step, first + column, p.terms, sums);
      }
      for (; row < p.rows; row += step) Terms{}(lane, row, first + column, p.terms, sums);
    }

    // (count, warps, columns)
    const auto of_warps = lane.shared(simt::Array<float, Terms::count * warps * columns>{});
    const int summed = lane.index() % across * N + lane.index() / across;
    TRILITH_UNROLL
    for (int i = 0; i < Terms::count; ++i) {
      lane.store(of_warps, (i * warps + lane.warp()) * columns + summed, sum_over_rows(lane, sums[i]));
    }
    lane.barrier();

    const Index mine = first + lane.index();
    if (lane.warp() < Terms::count && mine < p.columns) {
      float sum = 0;
      TRILITH_UNROLL
      for (int warp = 0; warp < warps; ++warp) {
        sum += lane.load(of_warps, (lane.warp() * warps + warp) * columns + lane.index());
      }
      // Not indexed by the warp, which would put the parameters in local memory.
      TRILITH_UNROLL
      for (int i = 0; i < Terms::count; ++i) {
        if (lane.warp() != i) continue;
        if (p.accumulate) sum += lane.load(p.sums[i], mine);
        lane.store(p.sums[i], mine, sum);
      }
    }
  }

 private:
  // Over the lanes that have the same columns as this one, N in all, which end with one column each: lane
  // r · across + c with column c · N + r. In every step a lane gives away half of the columns it still has.
  template <class Lane>
  static TRILITH_DEVICE float sum_over_rows(Lane& lane, Floats<N> mine) {
    int mask = simt::warp_size / 2;
    TRILITH_UNROLL
    for (int count = N / 2; count > 0; count /= 2) {
      const bool upper = (lane.index() & mask) != 0;
      TRILITH_UNROLL
      for (int i = 0; i < count; ++i) {
        const float kept = upper ? mine[count + i] : mine[i];
        const float given = upper ? mine[i] : mine[count + i];
        mine[i] = kept + lane.shuffle_xor(given, mask);
      }
      mask /= 2;
    }
    return mine[0];
  }
};

// The sum of dy itself: the gradient of a bias.
template <element T>
struct BiasTerms {
  static constexpr const char* name = "bias_gradient";
  static constexpr int count = 1;
  struct Params {
    StridedRows<const T> dy;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, Index row, Index column, const Params& p,
                                 Floats<N>* sums) const {
    sums[0] = sums[0] + load_floats<N>(lane, p.dy, row, column);
  }
};

}  // namespace trilith::inline v0::kernels
