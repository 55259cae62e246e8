// Matrices as kernels see them, and loads and stores of their elements as floats.
#pragma once

#include <concepts>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// A matrix whose rows begin `stride` elements apart.
template <class T>
struct Rows {
  simt::Global<T> data;
  Index stride = 0;

  // Implicit, as from T* to const T*.
  template <std::same_as<const T> C>
  // NOLINTNEXTLINE(google-explicit-constructor)
  TRILITH_HOST_DEVICE operator Rows<C>() const {
    return {data, stride};
  }

  TRILITH_HOST_DEVICE Index at(Index row, Index column) const { return row * stride + column; }

  // Whether there is a matrix, where an operand may be left out.
  TRILITH_HOST_DEVICE bool given() const { return data.data != nullptr; }
};

// Columns column to column + N − 1 of a row.
template <int N, simt::lane Lane, class T>
TRILITH_DEVICE Floats<N> load_floats(Lane& lane, const Rows<T>& from, Index row, Index column) {
  return load_floats<N>(lane, from.data, from.at(row, column));
}

template <simt::lane Lane, element T, int N>
TRILITH_DEVICE void store_floats(Lane& lane, const Rows<T>& to, Index row, Index column,
                                 const Floats<N>& floats) {
  store_floats(lane, to.data, to.at(row, column), floats);
}

}  // namespace trilith::inline v0::kernels
