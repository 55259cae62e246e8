// Loads and stores of a matrix as floats.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// Columns column to column + N − 1 of a row.
template <int N, simt::lane Lane, class T>
TRILITH_DEVICE Floats<N> load_floats(Lane& lane, const StridedRows<T>& from, Index row, Index column) {
  return load_floats<N>(lane, from.elements, from.at(row, column));
}

template <simt::lane Lane, element T, int N>
TRILITH_DEVICE void store_floats(Lane& lane, const StridedRows<T>& to, Index row, Index column,
                                 const Floats<N>& floats) {
  store_floats(lane, to.elements, to.at(row, column), floats);
}

}  // namespace trilith::inline v0::kernels
