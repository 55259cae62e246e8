// LayerNorm and RmsNorm, forward. In each row
//
//     y = (x − mean) · rstd · gamma + beta,    rstd = 1 / √(mean of (x − mean)² + epsilon),
//
// in RmsNorm without mean and beta. What is added to x before, in the same pass over memory, is rounded to
// the element that is stored; the norm is of that. The variance takes a second pass over the row, in
// registers where it fits: mean of x² minus mean² would cancel.
#pragma once

#include <cmath>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/block_reduce.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/row_team.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

enum class NormKind { layer, rms };

template <element T>
struct NormParams {
  Index rows;
  int columns;
  StridedRows<const T> x;
  // x + bias + residual goes to `sum`, if that is given; each of the two may be left out.
  simt::Global<const T> bias = {};
  StridedRows<const T> residual = {};
  StridedRows<T> sum = {};
  simt::Global<const T> gamma;
  simt::Global<const T> beta = {};  // of LayerNorm, as the mean
  float epsilon;
  StridedRows<T> y;
  simt::Global<float> mean = {};
  simt::Global<float> rstd;
};

template <NormKind Kind, element T, RowTeam Team>
struct Norm {
  static constexpr bool centered = Kind == NormKind::layer;
  static constexpr const char* name = centered ? "layer_norm" : "rms_norm";
  static constexpr int threads = Team.block_threads();
  using Reduction = BlockReduction<float, Team.warps()>;
  static constexpr int shared_bytes = Reduction::shared_bytes;
  static constexpr int blocks_per_multiprocessor = 768 / threads;
  using Params = NormParams<T>;

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const TeamPlace<Team> place(lane);
    Reduction reduce(lane);
    const Index row = place.row;
    if (row >= p.rows) return;  // a warp; in a block of one row there is none
    TeamRow<T, Team> x(p.x, row);
    place.for_each_pack(p.columns, [&](int i, int column) { x.load(lane, i, column); });
    if (p.sum.given()) add(lane, p, place, x);

    const auto width = static_cast<float>(p.columns);
    float mean = 0;
    if constexpr (centered) {
      float sum = 0;
      place.for_each_pack(p.columns, [&](int i, int column) { sum += total(x.get(lane, i, column)); });
      mean = reduce(lane, sum, Sum{}) / width;
    }
    float squares = 0;
    place.for_each_pack(p.columns, [&](int i, int column) {
      const Floats<Team.width> deviation = x.get(lane, i, column) - mean;
      squares += total(deviation * deviation);
    });
    const float rstd = 1.0f / std::sqrt(reduce(lane, squares, Sum{}) / width + p.epsilon);

    place.for_each_pack(p.columns, [&](int i, int column) {
      Floats<Team.width> y =
          (x.get(lane, i, column) - mean) * rstd * load_floats<Team.width>(lane, p.gamma, column);
      if constexpr (centered) y = y + load_floats<Team.width>(lane, p.beta, column);
      store_floats(lane, p.y, row, column, y);
    });
    if (place.column == 0) {
      if constexpr (centered) lane.store(p.mean, row, mean);
      lane.store(p.rstd, row, rstd);
    }
  }

 private:
  template <class Lane>
  static TRILITH_DEVICE void add(Lane& lane, const Params& p, const TeamPlace<Team>& place,
                                 TeamRow<T, Team>& x) {
    place.for_each_pack(p.columns, [&](int i, int column) {
      Floats<Team.width> sum = x.get(lane, i, column);
      if (p.bias.data != nullptr) sum = sum + load_floats<Team.width>(lane, p.bias, column);
      if (p.residual.given()) sum = sum + load_floats<Team.width>(lane, p.residual, place.row, column);
      const auto rounded = to_pack<T>(sum);
      lane.store(p.sum.elements, p.sum.at(place.row, column), rounded);
      x.replace(i, rounded);
    });
    x.move_to(p.sum, place.row);
  }
};

}  // namespace trilith::inline v0::kernels
