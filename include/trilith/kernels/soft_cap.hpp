// tanh, which caps attention's scores.
#pragma once

#include <cmath>

#include <trilith/core/device_code.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// Relative error below 1e-6. Close to 0, where 1 - 2 / (e^(2x) + 1) cancels, a polynomial.
template <simt::lane Lane>
TRILITH_DEVICE float tanh(const Lane& lane, float x) {
  const float square = x * x;
  const float terms = -0.333333111f + square * (0.133304765f + square * (-0.0533871106f + square * 0.0179887444f));
  const float near_zero = x + x * square * terms;
  const float power = lane.exp2(2.88539008f * std::fabs(x));  // e^(2|x|)
  const float far = std::copysign(1.0f - 2.0f / (power + 1.0f), x);
  return std::fabs(x) < 0.5f ? near_zero : far;
}

}  // namespace trilith::inline v0::kernels
