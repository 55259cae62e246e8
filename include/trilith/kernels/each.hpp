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
#include <cstdint>

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
  static constexpr int blocks_per_multiprocessor = 5;  // 48 registers, for the loads under way
  static constexpr int steps = 4;
  static constexpr Index most = 4000000000;  // rows, and items

  std::uint32_t rows = 0;
  std::uint32_t items = 0;
  int along_log2 = 0;  // of the threads along a row

  static constexpr Share of(Index rows, Index items) {
    const auto along = static_cast<unsigned>(std::clamp<Index>(items, 1, threads));
    return {.rows = static_cast<std::uint32_t>(rows),
            .items = static_cast<std::uint32_t>(items),
            .along_log2 = static_cast<int>(std::bit_width(along)) - 1};
  }

  TRILITH_HOST_DEVICE constexpr int along() const { return 1 << along_log2; }
  TRILITH_HOST_DEVICE constexpr int rows_of_block() const { return threads >> along_log2; }

  constexpr simt::Dim3 grid() const {
    constexpr Index most_y = 65535;
    return {.x = static_cast<int>(ceil_divide(Index{items}, Index{along()} * steps)),
            .y = static_cast<int>(std::min(ceil_divide(Index{rows}, Index{rows_of_block()}), most_y))};
  }
};

// f(row, item) for the items of the thread.
template <simt::lane Lane, class F>
TRILITH_DEVICE void for_each_item(Lane& lane, const Share& share, F f) {
  const std::uint32_t in_row = lane.thread() & (share.along() - 1);
  const std::uint32_t first =
      (static_cast<std::uint32_t>(lane.block().x) * Share::steps << share.along_log2) + in_row;
  const std::uint32_t row_step = lane.grid().y * share.rows_of_block();
  for (std::uint32_t row = lane.block().y * share.rows_of_block() + (lane.thread() >> share.along_log2);
       row < share.rows; row += row_step) {
    std::uint32_t item = first;
    for (int step = 0; step < Share::steps && item < share.items; ++step, item += share.along()) f(row, item);
  }
}

template <class Operation, int N>
struct EachPack {
  static constexpr const char* name = Operation::name;
  static constexpr int threads = Share::threads;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_multiprocessor = Share::blocks_per_multiprocessor;
  struct Params {
    Share share;    // of packs of N columns
    Index columns;  // if not a multiple of N, the last pack goes column by column
    typename Operation::Params operands;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    for_each_item(lane, p.share, [&](std::uint32_t row, std::uint32_t item) {
      const Index column = Index{item} * N;
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
