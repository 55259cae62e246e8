// Sums over the rows of a matrix, column by column. A block takes 32 columns, of all rows or of a part of
// them: where there are few columns, the sums of parts fill the machine, and are themselves summed by a
// second launch. Its threads share out the rows and add their sums in a fixed order.
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

#include <algorithm>

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
  static constexpr int threads = 256;
  static constexpr int columns = 32;  // of a block: 64 bytes or more of a row, in one piece
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int shared_bytes = Terms::count * warps * columns * static_cast<int>(sizeof(float));
  static constexpr int blocks_per_multiprocessor = 3;
  struct Params {
    Index rows;     // of all parts
    Index columns;  // a multiple of N
    bool accumulate;
    typename Terms::Params terms;
    simt::Global<float> sums[Terms::count];  // (parts, columns), overwritten or added to
  };

  // Parts of the rows: as many as make a grid of `enough` blocks, but none so small that a thread would have
  // no batch of rows. The same on every GPU, so that sums are the same bits.
  static constexpr int parts(Index rows, Index all_columns) {
    constexpr Index enough = 384;  // three for each of 128 multiprocessors
    const Index of_columns = ceil_divide(all_columns, Index{columns});
    return static_cast<int>(std::max<Index>(1, std::min(enough / of_columns, rows / (batch * step))));
  }

  static constexpr simt::Dim3 grid(Index all_columns, int parts) {
    return {.x = static_cast<int>(ceil_divide(all_columns, Index{columns})), .y = parts};
  }

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Index first = Index{lane.block().x} * columns;
    const int column = lane.thread() % across * N;
    Floats<N> sums[Terms::count];
    TRILITH_UNROLL
    for (int i = 0; i < Terms::count; ++i) sums[i] = all_equal<N>(0.0f);
    if (first + column < p.columns) {
      const Index of_part = ceil_divide(p.rows, Index{lane.grid().y});
      const Index begin = lane.block().y * of_part;
      const Index end = begin + of_part < p.rows ? begin + of_part : p.rows;
      Index row = begin + lane.thread() / across;
      for (; row + (batch - 1) * step < end; row += batch * step) {
        TRILITH_UNROLL
        for (int i = 0; i < batch; ++i) Terms{}(lane, row + i * step, first + column, p.terms, sums);
      }
      for (; row < end; row += step) Terms{}(lane, row, first + column, p.terms, sums);
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
      const Index place = lane.block().y * p.columns + mine;
      // Not indexed by the warp, which would put the parameters in local memory.
      TRILITH_UNROLL
      for (int i = 0; i < Terms::count; ++i) {
        if (lane.warp() != i) continue;
        if (p.accumulate) sum += lane.load(p.sums[i], place);
        lane.store(p.sums[i], place, sum);
      }
    }
  }

 private:
  static constexpr int across = columns / N;  // threads that share a row
  static constexpr Index step = threads / across;
  static constexpr int batch = 4;  // rows whose loads are under way at once

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

// The sum of dy itself: the gradient of a bias, or of sums of parts of the rows.
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
