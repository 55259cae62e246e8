// Whole numbers rounded up.
#pragma once

#include <concepts>
#include <type_traits>

namespace trilith::inline v0 {

// The least number of pieces of size `by` that hold x. x ≥ 0, by > 0.
template <std::integral T>
constexpr T ceil_divide(T x, std::type_identity_t<T> by) {
  return (x + by - 1) / by;
}

// The least multiple that is not below x.
template <std::integral T>
constexpr T round_up(T x, std::type_identity_t<T> multiple) {
  return ceil_divide(x, multiple) * multiple;
}

}  // namespace trilith::inline v0
