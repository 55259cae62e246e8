// Token and position embeddings. The token table may be split over tensor ranks by rows (vocabulary
// parallel): a rank holds `table.extent(0)` rows from `first_row` on, and tokens outside of them are
// another rank's. Rows of y and dy are tokens: (batch · sequence, hidden), and may be strided.
#pragma once

#include <algorithm>
#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

// y[n] = the row of token n, or zeros where another rank holds it.
inline void embedding(const Host::Stream& stream, Vector<const std::int32_t> tokens,
                      Matrix<const float> table,  // (vocabulary / TP, hidden)
                      Index first_row, Matrix<float> y) {
  const Index width = y.extent(1);
  parallel::rows(stream, y.extent(0), width, [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      const Index row = tokens(n) - first_row;
      if (row >= 0 && row < table.extent(0)) {
        std::copy_n(&table(row, 0), width, &y(n, 0));
      } else {
        std::fill_n(&y(n, 0), width, 0.0f);
      }
    }
  });
}

// d_table[token n] += dy[n] for the tokens whose rows this rank holds, in ascending n. Threads share out the
// columns, so two tokens that are equal never meet in two threads.
inline void embedding_backward(const Host::Stream& stream, Vector<const std::int32_t> tokens,
                               Matrix<const float> dy, Index first_row,
                               Matrix<float> d_table) {  // (vocabulary / TP, hidden)
  parallel::columns(stream, dy.extent(0), dy.extent(1), [&](Index first, Index last) {
    for (Index n = 0; n < dy.extent(0); ++n) {
      const Index row = tokens(n) - first_row;
      if (row < 0 || row >= d_table.extent(0)) continue;
      const float* const from = &dy(n, first);
      float* const to = &d_table(row, first);
      simd::for_each_vector(last - first, [&](Index i, auto w) {
        simd::store_first(to + i, simd::load_first(to + i, w) + simd::load_first(from + i, w), w);
      });
    }
  });
}

// y += the rows of the table that belong to the positions, in each sequence of the batch. positions: of each
// row of a sequence; none twice; a negative one, of a row that is padding, adds nothing. y.extent(0) must be
// a multiple of their number.
inline void add_positions(const Host::Stream& stream, Matrix<const float> table,  // (positions, hidden)
                          Vector<const std::int32_t> positions,                   // (sequence)
                          Matrix<float> y) {  // (batch · sequence, hidden)
  parallel::rows(stream, y.extent(0), y.extent(1), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      const Index position = positions(n % positions.size());
      if (position < 0) continue;
      const float* const from = &table(position, 0);
      float* const to = &y(n, 0);
      simd::for_each_vector(y.extent(1), [&](Index i, auto w) {
        simd::store_first(to + i, simd::load_first(to + i, w) + simd::load_first(from + i, w), w);
      });
    }
  });
}

// The rows of d_table that belong to the positions = or += the sum of dy over the batch, in ascending order.
// Other rows are left as they are: where the gradient is to be overwritten, zeros must stand there.
inline void positions_backward(const Host::Stream& stream,
                               Matrix<const float> dy,                // (batch · sequence, hidden)
                               Vector<const std::int32_t> positions,  // (sequence)
                               Matrix<float> d_table,                 // (positions, hidden)
                               Accumulate accumulate) {
  const Index sequence = positions.size();
  const Index width = d_table.extent(1);
  parallel::rows(
      stream, sequence, width * (dy.extent(0) / std::max<Index>(sequence, 1)), [&](Index first, Index last) {
        for (Index row = first; row < last; ++row) {
          if (positions(row) < 0) continue;
          float* const to = &d_table(positions(row), 0);
          if (accumulate == Accumulate::no) std::fill_n(to, width, 0.0f);
          for (Index n = row; n < dy.extent(0); n += sequence) {
            const float* const from = &dy(n, 0);
            simd::for_each_vector(width, [&](Index i, auto w) {
              simd::store_first(to + i, simd::load_first(to + i, w) + simd::load_first(from + i, w), w);
            });
          }
        }
      });
}

}  // namespace trilith::inline v0::ops
