// A fraction in lowest terms, for figures that are exact.
#pragma once

#include <cstdint>
#include <numeric>

namespace trilith::inline v0 {

struct Ratio {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  constexpr Ratio(std::int64_t over, std::int64_t under)
      : numerator(over / divisor(over, under)), denominator(under / divisor(over, under)) {}

  constexpr double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  friend constexpr bool operator==(const Ratio&, const Ratio&) = default;

 private:
  static constexpr std::int64_t divisor(std::int64_t a, std::int64_t b) {
    const std::int64_t common = std::gcd(a, b);
    return common == 0 ? 1 : common;
  }
};

}  // namespace trilith::inline v0
