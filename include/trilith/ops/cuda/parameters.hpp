// Views as the parameters of kernels: what they span, and their strides.
#pragma once

#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::ops {

// All elements from the first to the last.
template <class T, int Rank>
simt::Global<T> span_of(const View<T, Rank>& view) {
  Index last = 0;
  for (int d = 0; d < Rank; ++d) {
    if (view.extent(d) == 0) return {view.data(), 0};
    last += (view.extent(d) - 1) * view.stride(d);
  }
  return {view.data(), last + 1};
}

// (batch, sequence, heads, dimension)
template <class T>
kernels::HeadTensor<T> head_tensor(const View<T, 4>& view) {
  return {span_of(view), view.stride(0), view.stride(1), view.stride(2)};
}

// (batch, heads, queries)
template <class T>
kernels::PerQuery<T> per_query(const View<T, 3>& view) {
  return {span_of(view), view.stride(0), view.stride(1)};
}

inline kernels::KeyRanges key_ranges(const KeyRanges& ranges) {
  return {span_of(ranges.first), span_of(ranges.last)};
}

}  // namespace trilith::inline v0::ops
