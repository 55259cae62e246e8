// What a warp does in the backward kernels of attention: products of tiles in shared memory.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/kernels/accumulators.hpp>
#include <trilith/kernels/attention_backward_tile.hpp>
#include <trilith/kernels/gradient_store.hpp>
#include <trilith/kernels/shared_tile.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <half T, AttentionBackwardTile tile>
struct BackwardWarp {
  static_assert(tile.warp_rows() % 16 == 0 && tile.warp_columns() % tile.strip == 0 && tile.strip % 16 == 0 &&
                    tile.warp_width() % 16 == 0,
                "AttentionBackwardTile: a warp's parts must be multiples of 16");
  static_assert(tile.row_warps < 16, "AttentionBackwardTile: there are 15 named barriers");

  using Rows = SharedTile<T, tile.rows, tile.width>;
  using Columns = SharedTile<T, tile.columns, tile.width>;
  using Scores = SharedTile < T, tile.rows, tile.columns<64 ? 64 : tile.columns>;
  static constexpr int blocks = tile.warp_rows() / 16;
  using ScorePart = Accumulators<blocks, tile.warp_columns()>;
  using ScoreStrip = Accumulators<blocks, tile.strip>;
  using GradientPart = Accumulators<blocks, tile.warp_width()>;
  using Room = GradientRoom<tile.warp_rows(), tile.warp_width()>;

  // Where the warp's parts begin.
  int row, score_column, width_column;

  template <simt::lane Lane>
  static TRILITH_DEVICE BackwardWarp of(Lane& lane) {
    const int warp = uniform(lane, lane.warp());
    const int part = warp % tile.column_warps;
    return {warp / tile.column_warps * tile.warp_rows(), part * tile.warp_columns(),
            part * tile.warp_width()};
  }

  // scores += rows · columnsᵀ, for the columns from the warp's `first` on.
  template <simt::lane Lane, int Count>
  TRILITH_DEVICE void add_scores(Lane& lane, Accumulators<blocks, Count>& scores, const Rows& rows,
                                 const Columns& columns, int first) const {
    multiply<tile.width>(
        lane, scores, [&](int block, int at) { return load_a(lane, rows, row + 16 * block, at); },
        [&](int at, int column) { return load_b(lane, columns, at, score_column + first + column); });
  }

  // gradients += scores · columns, with the warp's own scores from `first_score` on, which are for the strip
  // of columns from `first` on; or with all, exchanged.
  template <simt::lane Lane, int Count>
  TRILITH_DEVICE void add_product(Lane& lane, GradientPart& gradients,
                                  const Accumulators<blocks, Count>& scores, int first_score,
                                  const Columns& columns, int first) const {
    multiply<tile.strip>(
        lane, gradients, [&](int block, int at) { return scores.template as_a<T>(block, first_score + at); },
        [&](int at, int column) {
          return load_b_transposed(lane, columns, first + at, width_column + column);
        });
  }
  template <simt::lane Lane>
  TRILITH_DEVICE void add_product(Lane& lane, GradientPart& gradients, const Scores& scores,
                                  const Columns& columns) const {
    multiply<tile.columns>(
        lane, gradients, [&](int block, int at) { return load_a(lane, scores, row + 16 * block, at); },
        [&](int at, int column) { return load_b_transposed(lane, columns, at, width_column + column); });
  }

  // Adds factor · scoresᵀ · rows to `to`, atomically: of its tile.columns rows a warp takes 32, and of its
  // columns as many as there are warps for those. has_scores(row): whether there are scores in the rows that
  // a warp has from `row` on.
  template <simt::lane Lane, class HasScores>
  static TRILITH_DEVICE void add_rows(Lane& lane, const Scores& scores, const Rows& rows, float factor,
                                      const GradientRows<float>& to, HasScores&& has_scores) {
    constexpr int row_parts = tile.columns / 32;
    constexpr int width = tile.width * row_parts * simt::warp_size / tile.threads();
    constexpr int part = width < 32 ? width : 32;
    static_assert(part % 16 == 0, "AttentionBackwardTile: there are too many warps to add to dq");
    const int warp = uniform(lane, lane.warp());
    const int first_row = warp % row_parts * 32;
    TRILITH_UNROLL
    for (int done = 0; done < width; done += part) {
      const int first_column = warp / row_parts * width + done;
      Accumulators<2, part> sums;
      sums.clear();
      TRILITH_UNROLL
      for (int row = 0; row < tile.rows; row += tile.warp_rows()) {
        if (!has_scores(row)) continue;
        multiply<tile.warp_rows()>(
            lane, sums,
            [&](int block, int at) {
              return load_a_transposed(lane, scores, first_row + 16 * block, row + at);
            },
            [&](int at, int column) {
              return load_b_transposed(lane, rows, row + at, first_column + column);
            });
      }
      TRILITH_UNROLL
      for (int b = 0; b < 2; ++b) {
        TRILITH_UNROLL
        for (int n = 0; n < part / 8; ++n) {
          TRILITH_UNROLL
          for (int i = 0; i < 4; ++i) {
            const simt::Position at = simt::position_in_accumulator(lane.index(), i);
            const int y = first_row + 16 * b + at.row;
            const int x = first_column + 8 * n + at.column;
            if (to.has(y, x)) lane.atomic_add(to.matrix.elements, to.index(y, x), factor * sums.x[b][n][i]);
          }
        }
      }
    }
  }

  // Waits for the warps that have the same rows.
  template <simt::lane Lane>
  TRILITH_DEVICE void exchange(Lane& lane) const {
    lane.barrier(1 + row / tile.warp_rows(), tile.column_warps * simt::warp_size);
  }

  // The warp's room for its gradients in float: the two tiles of rows are as many bytes as those of all
  // warps. `rows` are the first of the two, and nobody reads them any more.
  template <simt::lane Lane>
  TRILITH_DEVICE Room room(const Lane& lane, const Rows& rows) const {
    constexpr int size = tile.warp_rows() * tile.warp_width();
    return {{reinterpret_cast<float*>(rows.elements.data) + lane.warp() * size, size}};
  }
};

}  // namespace trilith::inline v0::kernels
