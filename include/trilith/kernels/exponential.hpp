// e^x from the machine's 2^x.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// e^x for x ≤ 88; 0 below −87.4. The relative error is at most 2^-22 + 2^-24 · |x|.
template <simt::lane Lane>
TRILITH_DEVICE float exponential(Lane& lane, float x) {
  constexpr float log2_e = 1.4426950408889634f;
  return lane.exp2(x * log2_e);
}

}  // namespace trilith::inline v0::kernels
