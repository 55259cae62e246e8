// Compares the float64 reference with the figures of a fixture.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/weights.hpp"

namespace trilith::reference {

// The figures carry 12 digits. Values of a tensor are compared at its own scale: those that vanish, such as
// the gradient of a key's bias, are rounding in both.
inline constexpr double fixture_tolerance = 1e-10;

inline void expect_equal(const Values& actual, const Values& expected, const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double scale = 0;
  for (double x : expected) scale = std::max(scale, std::abs(x));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], fixture_tolerance * scale) << name << "[" << i << "]";
  }
}

inline void expect_equal(const Weights& actual, const Weights& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) expect_equal(actual.at(name), values, name);
}

// Each tensor has as many values as its extents say, and there are no others.
inline void expect_extents(const Weights& weights, const std::map<std::string, std::vector<Index>>& extents) {
  ASSERT_EQ(weights.size(), extents.size());
  for (const auto& [name, dimensions] : extents) {
    Index size = 1;
    for (Index extent : dimensions) size *= extent;
    EXPECT_EQ(std::ssize(weights.at(name)), size) << name;
  }
}

}  // namespace trilith::reference
