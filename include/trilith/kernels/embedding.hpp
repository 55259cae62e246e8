// Token and position embeddings: operations for EachPack. Tokens and positions are of rows, at most 2^31.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Rows first to first + rows − 1 of a table that is split over ranks.
struct HeldRows {
  Index first;
  Index rows;

  // The row of a token, or −1 where another rank holds it.
  TRILITH_DEVICE Index of(std::int32_t token) const {
    const Index row = token - first;
    return row >= 0 && row < rows ? row : -1;
  }
};

// y[n] = the row of token n, or zeros where another rank holds it.
template <element T>
struct Embedding {
  static constexpr const char* name = "embedding";
  struct Params {
    simt::Global<const std::int32_t> tokens;
    StridedRows<const T> table;
    HeldRows held;
    StridedRows<T> y;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index n, Index column, const Params& p) const {
    const Index row = p.held.of(lane.load(p.tokens, n));
    simt::Pack<T, N> pack{};
    if (row >= 0) pack = lane.load(p.table.elements, p.table.at(row, column), simt::Width<N>{});
    lane.store(p.y.elements, p.y.at(n, column), pack);
  }
};

// y += the row of the position of each row of a sequence, if that is not negative.
template <element T>
struct AddPositions {
  static constexpr const char* name = "add_positions";
  struct Params {
    StridedRows<const T> table;
    simt::Global<const std::int32_t> positions;  // (sequence)
    StridedRows<T> y;                            // (batch · sequence, hidden)
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index n, Index column, const Params& p) const {
    const auto row = static_cast<std::uint32_t>(n) % static_cast<std::uint32_t>(p.positions.size);
    const std::int32_t position = lane.load(p.positions, row);
    if (position < 0) return;
    const Floats<N> of_position = load_floats<N>(lane, p.table, position, column);
    store_floats(lane, p.y, n, column, load_floats<N>(lane, p.y, n, column) + of_position);
  }
};

// The row of each position = or += the sum of dy over the batch, in ascending order.
template <element T>
struct PositionsBackward {
  static constexpr const char* name = "positions_backward";
  struct Params {
    StridedRows<const T> dy;                     // (batch · sequence, hidden)
    simt::Global<const std::int32_t> positions;  // (sequence)
    StridedRows<float> d_table;
    Index rows;  // of dy
    bool accumulate;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const std::int32_t position = lane.load(p.positions, row);
    if (position < 0) return;
    Floats<N> sum = all_equal<N>(0.0f);
    if (p.accumulate) sum = load_floats<N>(lane, p.d_table, position, column);
    for (Index n = row; n < p.rows; n += p.positions.size) {
      sum = sum + load_floats<N>(lane, p.dy, n, column);
    }
    store_floats(lane, p.d_table, position, column, sum);
  }
};

}  // namespace trilith::inline v0::kernels
