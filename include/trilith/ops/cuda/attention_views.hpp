// How operations hand attention's views to kernels.
#pragma once

#include <string>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/launch.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::ops::detail {

template <class T>
kernels::PerQuery<T> per_query(View<T, 3> x) {
  return {span_of(x), x.stride(0), x.stride(1)};
}
inline kernels::KeyRanges key_ranges(const KeyRanges& ranges) {
  return {span_of(ranges.first), span_of(ranges.last)};
}

// A block for each tile of rows of each head of x.
template <class T>
simt::Dim3 head_grid(View<T, 4> x, int rows) {
  return {static_cast<int>(ceil_divide(x.extent(1), rows)), static_cast<int>(x.extent(2)),
          static_cast<int>(x.extent(0))};
}

// Calls body(width) with the width of tiles that a head's dimension takes, as a constant.
template <class Body>
void with_attention_width(Index dimension, Body&& body) {
  if (dimension % 8 != 0 || dimension > 256) {
    throw Error("attention in 16 bits with heads of dimension " + std::to_string(dimension),
                "give a multiple of 8, 256 at most");
  }
  if (dimension <= 64) return body(std::integral_constant<int, 64>{});
  if (dimension <= 128) return body(std::integral_constant<int, 128>{});
  body(std::integral_constant<int, 256>{});
}

}  // namespace trilith::inline v0::ops::detail
