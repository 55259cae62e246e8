// Reductions over the lanes of a warp, or of a quad: the 4 lanes that hold a row of an accumulator. Every
// lane gets the result.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

template <simt::lane Lane, class T>
TRILITH_DEVICE T warp_max(Lane& lane, T x) {
  TRILITH_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = lane.shuffle_xor(x, distance);
    x = other > x ? other : x;
  }
  return x;
}

template <simt::lane Lane, class T>
TRILITH_DEVICE T warp_min(Lane& lane, T x) {
  TRILITH_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = lane.shuffle_xor(x, distance);
    x = other < x ? other : x;
  }
  return x;
}

// x, which all lanes have, so that the compiler knows they have it: it then keeps x, and what follows from
// it, in registers of the warp.
template <simt::lane Lane, class T>
TRILITH_DEVICE T uniform(Lane& lane, T x) {
  return lane.shuffle(x, 0);
}

template <simt::lane Lane>
TRILITH_DEVICE float quad_max(Lane& lane, float x) {
  TRILITH_UNROLL
  for (int distance = 2; distance > 0; distance /= 2) {
    const float other = lane.shuffle_xor(x, distance);
    x = other > x ? other : x;
  }
  return x;
}

template <simt::lane Lane>
TRILITH_DEVICE float quad_sum(Lane& lane, float x) {
  TRILITH_UNROLL
  for (int distance = 2; distance > 0; distance /= 2) x += lane.shuffle_xor(x, distance);
  return x;
}

}  // namespace trilith::inline v0::kernels
