// Tensors of any element type for tests of kernels, aligned as a device's allocations are, and the emulator
// as a stream that runs operations.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/emulated.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"
#include "test/support/tensors.hpp"

namespace trilith::test {

using ElementTypes = testing::Types<float, BFloat16, Float16>;

// NaN in every element until something is written, and between the rows for ever.
template <class T>
class Elements {
 public:
  // `shift`: where the first element lies, in elements behind an aligned place.
  explicit Elements(Extent extent, Index shift = 0)
      : extent_(extent), shift_(shift), values_(shift + extent.rows * (extent.columns + extent.padding)) {
    if (!values_.empty()) std::memset(static_cast<void*>(values_.data()), 0xFF, values_.size() * sizeof(T));
  }
  explicit Elements(Index size, Index shift = 0) : Elements(Extent{1, size}, shift) {}

  Index rows() const { return extent_.rows; }
  Index columns() const { return extent_.columns; }
  Index stride() const { return extent_.columns + extent_.padding; }

  Matrix<T> matrix() { return {values_.data() + shift_, {rows(), columns()}, {stride(), 1}}; }
  Matrix<const T> matrix() const { return {values_.data() + shift_, {rows(), columns()}, {stride(), 1}}; }
  Vector<T> vector() { return flat(matrix()); }
  Vector<const T> vector() const { return flat(matrix()); }

  T& operator()(Index row, Index column) { return matrix()(row, column); }
  double operator()(Index row, Index column) const { return to_double(matrix()(row, column)); }
  T& operator[](Index i) { return vector()(i); }
  double operator[](Index i) const { return to_double(vector()(i)); }

  // By bits, what lies between the rows included.
  bool operator==(const Elements& other) const {
    return values_.size() == other.values_.size() &&
           std::memcmp(values_.data(), other.values_.data(), values_.size() * sizeof(T)) == 0;
  }

  bool padding_untouched() const {
    const Matrix<const T> all(values_.data() + shift_, {rows(), stride()});
    for (Index row = 0; row < rows(); ++row) {
      for (Index column = columns(); column < stride(); ++column) {
        if (!std::isnan(to_double(all(row, column)))) return false;
      }
    }
    return true;
  }

 private:
  static double to_double(T value) {
    if constexpr (half<T>) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  }

  Extent extent_;
  Index shift_;
  std::vector<T, DeviceAllocator<T>> values_;
};

// Normal numbers, mean + deviation · N(0, 1), rounded. Equal seeds give equal tensors.
template <class T>
Elements<T> random_elements(Extent extent, std::uint64_t seed, float deviation = 1, float mean = 0,
                            Index shift = 0) {
  Elements<T> elements(extent, shift);
  const Philox philox(seed, 0);
  for (Index row = 0; row < extent.rows; ++row) {
    for (Index column = 0; column < extent.columns; ++column) {
      const auto index = static_cast<std::uint64_t>(row * extent.columns + column);
      elements(row, column) = T(mean + deviation * philox.normal(index));
    }
  }
  return elements;
}
template <class T>
Elements<T> random_elements(Index size, std::uint64_t seed, float deviation = 1, float mean = 0,
                            Index shift = 0) {
  return random_elements<T>(Extent{1, size}, seed, deviation, mean, shift);
}

// How much rounding to T may change `value`: half of the distance to its neighbours.
template <class T>
double rounding(double value) {
  const double magnitude = std::abs(value);
  if constexpr (std::same_as<T, double>) {
    return 0x1p-53 * magnitude;
  } else if constexpr (std::same_as<T, float>) {
    return std::fmax(0x1p-24 * magnitude, 0x1p-150);
  } else if constexpr (std::same_as<T, BFloat16>) {
    return std::fmax(0x1p-8 * magnitude, 0x1p-134);
  } else {
    return std::fmax(0x1p-11 * magnitude, 0x1p-25);
  }
}

// A result in float64, and how far one of float32 arithmetic may be from it.
struct Near {
  double value;
  double tolerance;
};

// expected(row, column) is a Near, before it is rounded to T.
template <class T, class Expected>
void expect_near(const Elements<T>& actual, const Expected& expected) {
  for (Index row = 0; row < actual.rows(); ++row) {
    for (Index column = 0; column < actual.columns(); ++column) {
      const Near near = expected(row, column);
      const double difference = std::abs(actual(row, column) - near.value);
      const double tolerance = near.tolerance + rounding<T>(std::abs(near.value) + near.tolerance);
      ASSERT_LE(difference, tolerance)
          << actual(row, column) << " is not " << near.value << " at row " << row << ", column " << column;
    }
  }
}

// What run(stream) gives, which must be the same bits in every order of lanes and blocks.
template <class Run>
auto in_every_order(const Run& run) {
  auto first = run(Emulated::Stream());
  for (const std::uint64_t seed : {1, 2}) {
    EXPECT_TRUE(run(Emulated::Stream(simt::Emulation{.seed = seed, .landing = simt::Landing::late})) == first)
        << "seed " << seed;
  }
  return first;
}

// No sector has been moved for the sake of a part of it, and there was no bank conflict.
inline void expect_coalesced(const Emulated::Stream& stream) {
  const simt::Counters& c = stream.counters();
  EXPECT_GT(c.global_stores.bytes, 0);
  EXPECT_EQ(c.global_loads.sectors * 32, c.global_loads.bytes);
  EXPECT_EQ(c.global_stores.sectors * 32, c.global_stores.bytes);
  EXPECT_EQ(c.bank_conflicts(), 0);
}

inline void expect_no_launch(const Emulated::Stream& stream) {
  EXPECT_EQ(stream.counters(), simt::Counters{});
}

// Rows for kernels: whole packs of every type, odd widths, rows and strides that no load of several elements
// may begin at, several blocks.
inline const std::vector<Extent> kernel_extents = {{1, 1},       {3, 7, 1},   {5, 33},     {2, 100, 4},
                                                   {9, 64},      {7, 96, 32}, {4, 768, 8}, {2, 1000, 24},
                                                   {3, 1001, 7}, {2, 4096}};

}  // namespace trilith::test
