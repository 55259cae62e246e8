// Reductions of a whole vector to one number on the emulator's stream.
#pragma once

#include <trilith/core/tensor.hpp>
#include <trilith/device/emulated.hpp>
#include <trilith/ops/host/reduce.hpp>

namespace trilith::inline v0::ops {

// As ops/host/reduce.hpp says; to the host's bits.
inline void sum_of_squares(const Emulated::Stream& stream, Vector<const float> x, Vector<double> sum) {
  sum_of_squares(stream.host(), x, sum);
}

}  // namespace trilith::inline v0::ops
