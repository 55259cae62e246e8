// What the norms have in common on streams that run kernels: their kernels' parameters, and which team of
// threads takes a row.
#pragma once

#include <array>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/norm.hpp>
#include <trilith/kernels/norm_backward.hpp>
#include <trilith/kernels/row_team.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops::detail {

// f<Team>() for the team that suits rows of T: a warp holds up to 1024 elements, a block up to 8192, longer
// rows it loads again.
template <kernels::element T, class F>
void with_row_team(Index columns, bool aligned, const F& f) {
  constexpr int width = kernels::widest<T>;
  constexpr int packs = 32 / width;
  constexpr kernels::RowTeam of_warp{.threads = 32, .width = width, .packs = packs};
  constexpr kernels::RowTeam of_block{.threads = 256, .width = width, .packs = packs};
  constexpr kernels::RowTeam again{.threads = 256, .width = width};
  constexpr kernels::RowTeam unaligned{.threads = 256};
  if (!aligned || columns % width != 0) {
    f.template operator()<unaligned>();
  } else if (columns <= of_warp.columns()) {
    f.template operator()<of_warp>();
  } else if (columns <= of_block.columns()) {
    f.template operator()<of_block>();
  } else {
    f.template operator()<again>();
  }
}

// What every norm has; the rest is left out.
template <kernels::element T>
kernels::NormParams<T> norm_params(Matrix<const T> x, Vector<const T> gamma, float epsilon, Matrix<T> y,
                                   Vector<float> rstd) {
  return {.rows = x.extent(0),
          .columns = static_cast<int>(x.extent(1)),
          .x = rows_of(x),
          .gamma = span_of(gamma),
          .epsilon = epsilon,
          .y = rows_of(y),
          .rstd = span_of(rstd)};
}

template <kernels::NormKind Kind, kernels::element T, kernel_stream S>
void launch_norm(const S& stream, bool aligned, const kernels::NormParams<T>& params) {
  if (params.rows == 0) return;
  with_row_team<T>(params.columns, aligned, [&]<kernels::RowTeam Team>() {
    stream.launch(kernels::Norm<Kind, T, Team>{}, Team.grid(params.rows), params);
  });
}

// `mean` and `d_residual` may be empty. First the gradients of the parameters: dx may overwrite dy.
template <kernels::NormKind Kind, kernel_stream S, kernels::element T>
void launch_norm_backward(const S& stream, Matrix<const T> dy, Matrix<const T> x, Vector<const T> gamma,
                          Vector<const float> mean, Vector<const float> rstd, Matrix<const T> d_residual,
                          Matrix<T> dx,
                          const std::array<Vector<float>, kernels::NormTerms<Kind, T>::count>& d_parameters,
                          Accumulate accumulate) {
  constexpr int n = kernels::widest<T>;
  launch_column_sums<kernels::NormTerms<Kind, T>, n>(stream, x.extent(0), rows_aligned<n>(dy, x),
                                                     {rows_of(dy), rows_of(x), span_of(mean), span_of(rstd)},
                                                     accumulate, d_parameters);
  if (x.extent(0) == 0) return;
  const kernels::NormBackwardParams<T> params{.rows = x.extent(0),
                                              .columns = static_cast<int>(x.extent(1)),
                                              .dy = rows_of(dy),
                                              .x = rows_of(x),
                                              .gamma = span_of(gamma),
                                              .mean = span_of(mean),
                                              .rstd = span_of(rstd),
                                              .d_residual = rows_of(d_residual),
                                              .dx = rows_of(dx)};
  with_row_team<T>(x.extent(1), rows_aligned<n>(dy, x, gamma, d_residual, dx), [&]<kernels::RowTeam Team>() {
    stream.launch(kernels::NormBackward<Kind, T, Team>{}, Team.grid(params.rows), params);
  });
}

}  // namespace trilith::inline v0::ops::detail
