// Rotary position embedding on streams that run kernels; see ops/host/rotary.hpp. The table is float32, for
// every element type.
#pragma once

#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rotary.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

namespace detail {

template <bool Back, kernel_stream S, kernels::element T>
void rotate(const S& stream, Matrix<const float> table, View<T, 4> x) {
  constexpr int n = kernels::widest<float, T>;
  const Index half = x.extent(3) / 2;
  launch_each_head<kernels::Rotary<T, Back>, n>(stream, x, half, half % n == 0 && rows_aligned<n>(table, x),
                                                {rows_of(table), head_tensor(x), half});
}

}  // namespace detail

// The table of rows at `positions`. Up to position 2^20 entries are within 3.1e-8.
template <kernel_stream S>
void rotary_table(const S& stream, Vector<const std::int32_t> positions,  // (sequence)
                  float theta,
                  Matrix<float> table) {  // (sequence, dimension)
  const Index half = table.extent(1) / 2;
  detail::launch_each<kernels::RotaryTable, 1>(
      stream, table.extent(0), half, true,
      {detail::span_of(positions), double{theta}, half, detail::rows_of(table)});
}

// Rotates every head of x, in place.
template <kernel_stream S, kernels::element T>
void rotary(const S& stream, Matrix<const float> table,  // (sequence, dimension)
            View<T, 4> x) {                              // (batch, sequence, heads, dimension)
  detail::rotate<false>(stream, table, x);
}

// The gradient of what rotary gave becomes that of what it was given, in place: rotation by negative angles.
template <kernel_stream S, kernels::element T>
void rotary_backward(const S& stream, Matrix<const float> table,  // (sequence, dimension)
                     View<T, 4> d) {                              // (batch, sequence, heads, dimension)
  detail::rotate<true>(stream, table, d);
}

}  // namespace trilith::inline v0::ops
