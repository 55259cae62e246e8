// LayerNorm and RmsNorm, backward. With x̂ = (x − mean) · rstd and g = dy · gamma
//
//     dx = rstd · (g − mean of g − x̂ · mean of g · x̂),    d_gamma = Σ dy · x̂,    d_beta = Σ dy,
//
// in RmsNorm without the means of x and g, and beta. The gradients of gamma and beta are sums over all rows,
// which ColumnSums takes in a pass of its own.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/block_reduce.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/norm.hpp>
#include <trilith/kernels/row_team.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <element T>
struct NormBackwardParams {
  Index rows;
  int columns;
  StridedRows<const T> dy;
  StridedRows<const T> x;
  simt::Global<const T> gamma;
  simt::Global<const float> mean = {};  // of LayerNorm
  simt::Global<const float> rstd;
  StridedRows<const T> d_residual = {};  // is added to dx, if it is given
  StridedRows<T> dx;                     // may be dy or d_residual
};

template <NormKind Kind, element T, RowTeam Team>
struct NormBackward {
  static constexpr bool centered = Kind == NormKind::layer;
  static constexpr const char* name = centered ? "layer_norm_backward" : "rms_norm_backward";
  static constexpr int threads = Team.block_threads();
  using Reduction = BlockReduction<Floats<2>, Team.warps()>;
  static constexpr int shared_bytes = Reduction::shared_bytes;
  static constexpr int blocks_per_multiprocessor = 512 / threads;
  using Params = NormBackwardParams<T>;

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const TeamPlace<Team> place(lane);
    Reduction reduce(lane);
    const Index row = place.row;
    if (row >= p.rows) return;
    TeamRow<T, Team> x(p.x, row);
    TeamRow<T, Team> dy(p.dy, row);
    place.for_each_pack(p.columns, [&](int i, int column) {
      x.load(lane, i, column);
      dy.load(lane, i, column);
    });
    const float rstd = lane.load(p.rstd, row);
    float mean = 0;
    if constexpr (centered) mean = lane.load(p.mean, row);

    const auto normal = [&](int i, int column) { return (x.get(lane, i, column) - mean) * rstd; };
    const auto scaled = [&](int i, int column) {
      return dy.get(lane, i, column) * load_floats<Team.width>(lane, p.gamma, column);
    };
    Floats<2> sums = all_equal<2>(0.0f);  // of g and of g · x̂
    place.for_each_pack(p.columns, [&](int i, int column) {
      const Floats<Team.width> g = scaled(i, column);
      sums[0] += total(g);
      sums[1] += total(g * normal(i, column));
    });
    sums = reduce(lane, sums, Sum{}) * (1.0f / static_cast<float>(p.columns));
    if constexpr (!centered) sums[0] = 0;

    place.for_each_pack(p.columns, [&](int i, int column) {
      Floats<Team.width> dx = (scaled(i, column) - sums[0] - normal(i, column) * sums[1]) * rstd;
      if (p.d_residual.given()) dx = dx + load_floats<Team.width>(lane, p.d_residual, row, column);
      store_floats(lane, p.dx, row, column, dx);
    });
  }
};

// For ColumnSums: d_gamma and, in LayerNorm, d_beta.
template <NormKind Kind, element T>
struct NormTerms {
  static constexpr bool centered = Kind == NormKind::layer;
  static constexpr const char* name = centered ? "layer_norm_parameters" : "rms_norm_parameters";
  static constexpr int count = centered ? 2 : 1;
  struct Params {
    StridedRows<const T> dy;
    StridedRows<const T> x;
    simt::Global<const float> mean = {};  // of LayerNorm
    simt::Global<const float> rstd;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, Index row, Index column, const Params& p,
                                 Floats<N>* sums) const {
    const Floats<N> dy = load_floats<N>(lane, p.dy, row, column);
    Floats<N> normal = load_floats<N>(lane, p.x, row, column);
    if constexpr (centered) {
      normal = normal - lane.load(p.mean, row);
      sums[1] = sums[1] + dy;
    }
    sums[0] = sums[0] + dy * (normal * lane.load(p.rstd, row));
  }
};

}  // namespace trilith::inline v0::kernels
