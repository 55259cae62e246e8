// The 16-bit types, held against their definition: the nearest of all values, ties to the even one.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>

namespace trilith::test {
namespace {

// Significand bits with the hidden one, and the exponent of the least normal number.
template <half T>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int significand = 8;
  static constexpr int least_exponent = -126;
  static constexpr int exponent_bits = 8;
};
template <>
struct Format<Float16> {
  static constexpr int significand = 11;
  static constexpr int least_exponent = -14;
  static constexpr int exponent_bits = 5;
};

template <half T>
T from_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <half T>
bool is_nan(std::uint32_t bits) {
  const std::uint32_t infinity = ((1u << Format<T>::exponent_bits) - 1) << (Format<T>::significand - 1);
  return (bits & 0x7FFF) > infinity;
}

// By IEEE 754's definition, in double.
template <half T>
double value_of(std::uint32_t bits) {
  using F = Format<T>;
  const std::uint32_t fraction = bits & ((1u << (F::significand - 1)) - 1);
  const int exponent = static_cast<int>((bits & 0x7FFF) >> (F::significand - 1));
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << F::exponent_bits) - 1) return sign * std::numeric_limits<double>::infinity();
  const double ulp = std::ldexp(1.0, F::least_exponent - (F::significand - 1));
  if (exponent == 0) return sign * fraction * ulp;
  return sign * std::ldexp((fraction + (1u << (F::significand - 1))) * ulp, exponent - 1);
}

template <class T>
class HalfTest : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryValueGoesToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = from_bits<TypeParam>(bits);
    if (is_nan<TypeParam>(bits)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(value)));
      EXPECT_EQ(TypeParam(static_cast<float>(value)).bits, 0x7FFF);
    } else {
      ASSERT_EQ(static_cast<float>(value), value_of<TypeParam>(bits)) << bits;
      ASSERT_EQ(TypeParam(static_cast<float>(value)).bits, bits);
    }
  }
}

// Between each two neighbours: the midpoint goes to the even one, the floats beside it to the nearer one.
TYPED_TEST(HalfTest, RoundsToNearestTiesToEven) {
  for (std::uint32_t sign : {0u, 0x8000u}) {
    for (std::uint32_t bits = sign; !is_nan<TypeParam>(bits + 1); ++bits) {
      const double low = value_of<TypeParam>(bits);
      double high = value_of<TypeParam>(bits + 1);
      // Where infinity begins, the exponent just goes on.
      if (std::isinf(high)) high = low + (low - value_of<TypeParam>(bits - 1));
      const auto middle = static_cast<float>((low + high) / 2);
      if (static_cast<double>(middle) != (low + high) / 2) continue;  // bfloat16's last one is beyond float
      const std::uint32_t even = bits + (bits & 1);
      ASSERT_EQ(TypeParam(middle).bits, even) << bits;
      ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0f)).bits, bits) << bits;
      ASSERT_EQ(TypeParam(std::nextafter(middle, 2 * middle)).bits, bits + 1) << bits;
    }
  }
}

TYPED_TEST(HalfTest, SpecialNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(TypeParam(infinity)), infinity);
  EXPECT_EQ(static_cast<float>(TypeParam(-infinity)), -infinity);
  EXPECT_EQ(static_cast<float>(TypeParam(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(TypeParam(-0.0f).bits, 0x8000);
  EXPECT_EQ(TypeParam(std::bit_cast<float>(0xFF800001u)).bits, 0x7FFF);
}

TYPED_TEST(HalfTest, PairsHaveTheFirstBelow) {
  EXPECT_EQ(pack_pair<TypeParam>(1.0f, -2.0f),
            TypeParam(1.0f).bits | (static_cast<std::uint32_t>(TypeParam(-2.0f).bits) << 16));
}

}  // namespace
}  // namespace trilith::test
