// Kernels that do one thing to each element of a matrix, as many elements at once as a load takes.
//
//   template <class T>
//   struct Twice {
//     static constexpr const char* name = "twice";
//     struct Params { StridedRows<T> x; };
//
//     // To columns column to column + N − 1 of a row.
//     template <simt::lane Lane, int N>
//     TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p)
//     const {
//       store_floats(lane, p.x, row, column, load_floats<N>(lane, p.x, row, column) * 2.0f);
//     }
//   };
//
// EachPack<Twice<T>, N> is its kernel. A thread does its packs one after the other, so an output may be an
// input.
#pragma once

#include <algorithm>
#include <bit>

#include <trilith/core/device_code.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// How the threads of a grid share out rows of items: a block takes several rows, if they are short, and at
// most 4 items of a thread in each. Neighbours take neighbouring items.
struct Share {
  static constexpr int threads = 256;
  static constexpr int steps = 4;

  Index rows = 0;
  Index items = 0;
  int along = 1;  // threads along a row, a power of two

  static constexpr Share of(Index rows, Index items) {
    const auto most = static_cast<unsigned>(std::clamp<Index>(items, 1, threads));
    return {.rows = rows, .items = items, .along = static_cast<int>(std::bit_floor(most))};
  }

  constexpr simt::Dim3 grid() const {
    constexpr Index most_y = 65535;
    return {.x = static_cast<int>(ceil_divide(items, Index{along} * steps)),
            .y = static_cast<int>(std::min(ceil_divide(rows, Index{threads / along}), most_y))};
  }
};

// f(row, item) for the items of the thread.
template <simt::lane Lane, class F>
TRILITH_DEVICE void for_each_item(Lane& lane, const Share& share, F f) {
  const int rows_of_block = Share::threads / share.along;
  const Index first = Index{lane.block().x} * share.along * Share::steps;
  const Index end = first + Index{share.along} * Share::steps;
  const Index last = end < share.items ? end : share.items;
  const Index row_step = Index{lane.grid().y} * rows_of_block;
  for (Index row = Index{lane.block().y} * rows_of_block + lane.thread() / share.along; row < share.rows;
       row += row_step) {
    for (Index item = first + (lane.thread() & (share.along - 1)); item < last; item += share.along)
      f(row, item);
  }
}

template <class Operation, int N>
struct EachPack {
  static constexpr const char* name = Operation::name;
  static constexpr int threads = Share::threads;
  static constexpr int shared_bytes = 0;
  struct Params {
    Share share;    // of packs of N columns
    Index columns;  // if not a multiple of N, the last pack goes column by column
    typename Operation::Params operands;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    for_each_item(lane, p.share, [&](Index row, Index item) {
      const Index column = item * N;
      if (column + N <= p.columns) {
        Operation{}(lane, simt::Width<N>{}, row, column, p.operands);
      } else if constexpr (N > 1) {
        for (Index rest = column; rest < p.columns; ++rest) {
          Operation{}(lane, simt::Width<1>{}, row, rest, p.operands);
        }
      }
    });
  }
};

}  // namespace trilith::inline v0::kernels
