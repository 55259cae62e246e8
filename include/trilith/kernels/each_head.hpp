// Kernels that do one thing to each element of a (batch, rows, heads, dimension) tensor: as EachPack, with an
// operation that takes a HeadPlace instead of a row and a column.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/each.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <class Operation, int N>
struct EachHead {
  static constexpr const char* name = Operation::name;
  static constexpr int threads = Share::threads;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_multiprocessor = Share::blocks_per_multiprocessor;
  struct Params {
    Share share;  // of the packs of all heads of a row
    std::uint32_t rows;
    std::uint32_t packs;    // of a head
    std::uint32_t columns;  // of a head; if not a multiple of N, its last pack goes column by column
    typename Operation::Params operands;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    for_each_item(lane, p.share, [&](std::uint32_t row, std::uint32_t item) {
      HeadPlace place{.batch = row / p.rows,
                      .row = row % p.rows,
                      .head = item / p.packs,
                      .column = Index{item % p.packs} * N};
      if (place.column + N <= p.columns) {
        Operation{}(lane, simt::Width<N>{}, place, p.operands);
      } else if constexpr (N > 1) {
        for (; place.column < p.columns; ++place.column) {
          Operation{}(lane, simt::Width<1>{}, place, p.operands);
        }
      }
    });
  }
};

}  // namespace trilith::inline v0::kernels
