// Comparing sets of tensors by name, as the laws do: by bits, or tensor by tensor in relative error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trilith::test {

template <class T>
using Tensors = std::map<std::string, std::vector<T>>;

template <class T>
void expect_same_bits(const Tensors<T>& actual, const Tensors<T>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const auto place = actual.find(name);
    if (place == actual.end() || place->second.size() != values.size()) {
      ADD_FAILURE() << name << " is missing, or of another size";
      continue;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::memcmp(&place->second[i], &values[i], sizeof(T)) == 0) continue;
      ADD_FAILURE() << name << "[" << i << "] is " << place->second[i] << ", not " << values[i];
      break;  // one of each tensor tells enough
    }
  }
}

template <class T>
double square(const std::vector<T>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

struct Worst {
  double error = 0;
  std::string tensor = "";
};

// The greatest ‖actual − expected‖ / ‖expected‖ of a tensor, where the divisor is at least 1e-3 of the norm
// of all tensors: the gradient of the key's bias, say, is zero but for rounding. NaN, or a tensor that is not
// there, gives +∞.
template <class T, class U>
Worst worst_error(const Tensors<T>& actual, const Tensors<U>& expected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double all = 0;
  for (const auto& [name, values] : expected) all += square(values);
  const double floor = 1e-3 * std::sqrt(all);

  Worst worst;
  for (const auto& [name, values] : expected) {
    const auto place = actual.find(name);
    if (place == actual.end() || place->second.size() != values.size()) return {infinity, name};
    double difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double d = double{place->second[i]} - double{values[i]};
      difference += d * d;
    }
    const double error = std::sqrt(difference) / std::max(std::sqrt(square(values)), floor);
    if (!std::isfinite(error)) return {infinity, name};
    if (error > worst.error) worst = {error, name};
  }
  return worst;
}

template <class T, class U>
void expect_close(const Tensors<T>& actual, const Tensors<U>& expected, double tolerance) {
  const Worst worst = worst_error(actual, expected);
  EXPECT_LE(worst.error, tolerance) << worst.tensor;
}

}  // namespace trilith::test
