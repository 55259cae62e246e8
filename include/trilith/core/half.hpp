// The two 16-bit floating-point types, as they lie in memory. They are stored and moved; arithmetic is in
// float.
//
// From float both round to nearest, ties to even, and any NaN becomes 0x7FFF, as PTX's cvt.rn does (PTX ISA,
// "Data Movement and Conversion Instructions: cvt"). So the host's bits are the device's, where conversions
// are that instruction.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <trilith/core/device_code.hpp>

namespace trilith::inline v0 {

namespace detail {

constexpr std::uint16_t canonical_nan = 0x7FFF;

TRILITH_HOST_DEVICE constexpr std::uint16_t bfloat16_bits(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
#endif
  const auto x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7FFFFFFFu) > 0x7F800000u) return canonical_nan;
  return static_cast<std::uint16_t>((x + 0x7FFFu + ((x >> 16) & 1u)) >> 16);
}

TRILITH_HOST_DEVICE constexpr std::uint16_t float16_bits(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
#endif
  const auto x = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (x >> 16) & 0x8000u;
  const std::uint32_t magnitude = x & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return canonical_nan;
  std::uint32_t bits = 0;
  if (magnitude >= 0x477FF000u) {  // 65520 is halfway to 65536, and ties go to even: infinity
    bits = 0x7C00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 results are multiples of 2^-24, the spacing of floats from 0.5 to 1: adding 0.5 rounds.
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    bits = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

TRILITH_HOST_DEVICE constexpr float float16_value(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
#endif
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -value : value;
}

}  // namespace detail

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  TRILITH_HOST_DEVICE constexpr explicit BFloat16(float value) : bits(detail::bfloat16_bits(value)) {}
  TRILITH_HOST_DEVICE constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  TRILITH_HOST_DEVICE constexpr explicit Float16(float value) : bits(detail::float16_bits(value)) {}
  TRILITH_HOST_DEVICE constexpr explicit operator float() const { return detail::float16_value(bits); }
};

template <class T>
concept half = std::same_as<T, BFloat16> || std::same_as<T, Float16>;

// Two values in one register, `low` in its lower half.
template <half T>
TRILITH_HOST_DEVICE std::uint32_t pack_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t pair;
  if constexpr (std::same_as<T, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return T(low).bits | (static_cast<std::uint32_t>(T(high).bits) << 16);
#endif
}

}  // namespace trilith::inline v0
