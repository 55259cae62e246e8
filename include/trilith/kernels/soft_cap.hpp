// How a product q · k becomes a score, and a score a weight.
#pragma once

#include <cmath>

#include <trilith/core/device_code.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::kernels {

// A product s becomes the score `unit` · s; or, capped, s becomes `cap` · tanh(s · per_cap), and its unit
// is 1.
struct ScoreScale {
  float unit;
  float per_unit;
  float log2_unit;  // unit · log2(e): e^score = 2^(log2_unit · s)
  float cap;        // 0: none
  float per_cap;

  static constexpr ScoreScale of(float scale, float soft_cap) {
    const float unit = soft_cap > 0 ? 1.0f : scale;
    return {unit, 1 / unit, unit * 1.44269504f, soft_cap, soft_cap > 0 ? scale / soft_cap : 0.0f};
  }
};

// Two bits may be wrong, as in what the device divides by in one instruction.
TRILITH_DEVICE float quick_quotient(float x, float y) {
#if defined(__CUDA_ARCH__)
  return __fdividef(x, y);
#else
  return x / y;
#endif
}

// Relative error below 1e-6. Close to 0, where 1 - 2 / (e^(2x) + 1) cancels, a polynomial.
template <simt::lane Lane>
TRILITH_DEVICE float tanh(const Lane& lane, float x) {
  const float square = x * x;
  const float terms =
      -0.333333111f + square * (0.133304765f + square * (-0.0533871106f + square * 0.0179887444f));
  const float near_zero = x + x * square * terms;
  const float power = lane.exp2(2.88539008f * std::fabs(x));  // e^(2|x|)
  const float far = std::copysign(1.0f - quick_quotient(2.0f, power + 1.0f), x);
  return std::fabs(x) < 0.5f ? near_zero : far;
}

}  // namespace trilith::inline v0::kernels
