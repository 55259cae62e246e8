// How gradients leave a warp's registers: through shared memory, so that lanes write 16 bytes each, side by
// side.
#pragma once

#include <type_traits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/accumulators.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Elements of 16 bytes.
template <class T>
inline constexpr int per_store = 16 / static_cast<int>(sizeof(T));

// Rows first_row on and columns first_column on of a matrix, where a warp's values go; what lies beyond
// `rows` or `columns` is not stored.
template <class T>
struct GradientRows {
  StridedRows<T> to;
  int first_row;
  int first_column;
  int rows;
  int columns;  // a multiple of 8

  TRILITH_DEVICE bool has(int row, int column) const {
    return first_row + row < rows && first_column + column < columns;
  }
  TRILITH_DEVICE Index index(int row, int column) const {
    return (first_row + row) * to.stride + first_column + column;
  }

  // Stores the elements from (row, column) on.
  template <simt::lane Lane>
  TRILITH_DEVICE void store(Lane& lane, int row, int column,
                            const simt::Pack<float, 4> (&values)[per_store<T> / 4]) const {
    if constexpr (std::is_same_v<T, float>) {
      lane.store(to.elements, index(row, column), values[0]);
    } else {
      simt::Pack<T, 8> rounded;
      TRILITH_UNROLL
      for (int i = 0; i < 8; ++i) rounded[i] = T(values[i / 4][i % 4]);
      lane.store(to.elements, index(row, column), rounded);
    }
  }

  // Adds the elements of `other` in the same place.
  template <simt::lane Lane>
  TRILITH_DEVICE void add(Lane& lane, const StridedRows<float>& other, int row, int column,
                          simt::Pack<float, 4> (&values)[per_store<T> / 4]) const {
    TRILITH_UNROLL
    for (int part = 0; part < per_store<T> / 4; ++part) {
      const Index from = (first_row + row) * other.stride + first_column + column + 4 * part;
      const auto more = lane.load(other.elements, from, simt::Width<4>{});
      TRILITH_UNROLL
      for (int i = 0; i < 4; ++i) values[part][i] += more[i];
    }
  }
};

// Gives factor · values to `body(row, column, values)`, as many as one store takes. `room` holds as many
// floats as `values`, and is the warp's own. Chunks of 4 floats are swizzled: two of them, which a quad
// writes, XOR the row mod 4.
template <int PerStore, simt::lane Lane, int Blocks, int Columns, class Body>
TRILITH_DEVICE void through_shared(Lane& lane, const simt::Shared<float>& room,
                                   const Accumulators<Blocks, Columns>& values, float factor, Body&& body) {
  const auto place = [](int row, int column) { return row * Columns + (column ^ row % 4 * 8); };
  const int own = place(lane.index() / 4, lane.index() % 4 * 2);
  TRILITH_UNROLL
  for (int b = 0; b < Blocks; ++b) {
    TRILITH_UNROLL
    for (int n = 0; n < Columns / 8; ++n) {
      TRILITH_UNROLL
      for (int half = 0; half < 2; ++half) {
        lane.store(room, (16 * b + 8 * half) * Columns + (own ^ 8 * n),
                   simt::Pack<float, 2>{
                       {factor * values.x[b][n][2 * half], factor * values.x[b][n][2 * half + 1]}});
      }
    }
  }
  lane.sync_warp();
  constexpr int stores = Columns / PerStore;  // of a row
  static_assert(simt::warp_size % stores == 0, "through_shared: a warp must take whole rows");
  const int column = lane.index() % stores * PerStore;
  for (int row = lane.index() / stores; row < 16 * Blocks; row += simt::warp_size / stores) {
    simt::Pack<float, 4> taken[PerStore / 4];
    TRILITH_UNROLL
    for (int part = 0; part < PerStore / 4; ++part) {
      taken[part] = lane.load(room, place(row, column + 4 * part), simt::Width<4>{});
    }
    body(row, column, taken);
  }
  lane.sync_warp();  // before the room is written again
}

}  // namespace trilith::inline v0::kernels
