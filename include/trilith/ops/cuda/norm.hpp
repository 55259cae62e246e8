// What the norms have in common on streams that run kernels: which team of threads takes a row.
#pragma once

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/norm.hpp>
#include <trilith/kernels/norm_backward.hpp>
#include <trilith/kernels/row_team.hpp>

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

template <kernels::NormKind Kind, kernels::element T, kernel_stream S>
void launch_norm(const S& stream, bool aligned, const kernels::NormParams<T>& params) {
  if (params.rows == 0) return;
  with_row_team<T>(params.columns, aligned, [&]<kernels::RowTeam Team>() {
    stream.launch(kernels::Norm<Kind, T, Team>{}, Team.grid(params.rows), params);
  });
}

template <kernels::NormKind Kind, kernels::element T, kernel_stream S>
void launch_norm_backward(const S& stream, bool aligned, const kernels::NormBackwardParams<T>& params) {
  if (params.rows == 0) return;
  with_row_team<T>(params.columns, aligned, [&]<kernels::RowTeam Team>() {
    stream.launch(kernels::NormBackward<Kind, T, Team>{}, Team.grid(params.rows), params);
  });
}

}  // namespace trilith::inline v0::ops::detail
