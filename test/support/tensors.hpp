// Tensors that own their memory, for tests of operations: random or poisoned, with rows that may be strided,
// and compared by value or by bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>

namespace trilith::test {

struct Extent {
  Index rows;
  Index columns;
  Index padding = 0;  // elements between rows

  friend std::ostream& operator<<(std::ostream& out, const Extent& extent) {
    return out << extent.rows << " × " << extent.columns << " + " << extent.padding;
  }
};

// NaN in every element until something is written, and between the rows for ever.
class Tensor {
 public:
  explicit Tensor(Extent extent)
      : extent_(extent),
        values_(static_cast<std::size_t>(extent.rows * (extent.columns + extent.padding)),
                std::numeric_limits<float>::quiet_NaN()) {}
  explicit Tensor(Index size) : Tensor(Extent{1, size}) {}

  Index rows() const { return extent_.rows; }
  Index columns() const { return extent_.columns; }
  Index stride() const { return extent_.columns + extent_.padding; }

  Matrix<float> matrix() { return {values_.data(), {rows(), columns()}, {stride(), 1}}; }
  Matrix<const float> matrix() const { return {values_.data(), {rows(), columns()}, {stride(), 1}}; }
  Vector<float> vector() { return flat(matrix()); }
  Vector<const float> vector() const { return flat(matrix()); }

  float& operator()(Index row, Index column) { return matrix()(row, column); }
  float operator()(Index row, Index column) const { return matrix()(row, column); }
  float& operator[](Index i) { return values_[static_cast<std::size_t>(i)]; }
  float operator[](Index i) const { return values_[static_cast<std::size_t>(i)]; }

  // By bits, what lies between the rows included: NaN equals the same NaN, and 0 is not −0.
  bool operator==(const Tensor& other) const {
    return values_.size() == other.values_.size() &&
           (values_.empty() ||
            std::memcmp(values_.data(), other.values_.data(), values_.size() * sizeof(float)) == 0);
  }

  bool padding_untouched() const {
    for (Index row = 0; row < rows(); ++row) {
      for (Index column = columns(); column < stride(); ++column) {
        if (!std::isnan(values_[static_cast<std::size_t>(row * stride() + column)])) return false;
      }
    }
    return true;
  }

 private:
  Extent extent_;
  std::vector<float> values_;
};

// Normal numbers, mean + deviation · N(0, 1). Equal seeds give equal tensors.
inline Tensor random_tensor(Extent extent, std::uint64_t seed, float deviation = 1, float mean = 0) {
  Tensor tensor(extent);
  const Philox philox(seed, 0);
  for (Index row = 0; row < extent.rows; ++row) {
    for (Index column = 0; column < extent.columns; ++column) {
      const auto index = static_cast<std::uint64_t>(row * extent.columns + column);
      tensor(row, column) = mean + deviation * philox.normal(index);
    }
  }
  return tensor;
}
inline Tensor random_tensor(Index size, std::uint64_t seed, float deviation = 1, float mean = 0) {
  return random_tensor(Extent{1, size}, seed, deviation, mean);
}

// Float64 results of references, row by row without gaps.
class Reference {
 public:
  explicit Reference(Index rows, Index columns)
      : columns_(columns), values_(static_cast<std::size_t>(rows * columns)) {}
  explicit Reference(Index size) : Reference(1, size) {}

  double& operator()(Index row, Index column) {
    return values_[static_cast<std::size_t>(row * columns_ + column)];
  }
  double operator()(Index row, Index column) const {
    return values_[static_cast<std::size_t>(row * columns_ + column)];
  }
  double& operator[](Index i) { return values_[static_cast<std::size_t>(i)]; }
  double operator[](Index i) const { return values_[static_cast<std::size_t>(i)]; }

 private:
  Index columns_;
  std::vector<double> values_;
};

// max |actual − expected| / max(|expected|); NaN in `actual` gives +∞.
inline double relative_error(const Tensor& actual, const Reference& expected) {
  double error = 0;
  double scale = std::numeric_limits<double>::min();
  for (Index row = 0; row < actual.rows(); ++row) {
    for (Index column = 0; column < actual.columns(); ++column) {
      const double difference = std::abs(double{actual(row, column)} - expected(row, column));
      if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
      error = std::max(error, difference);
      scale = std::max(scale, std::abs(expected(row, column)));
    }
  }
  return error / scale;
}

// run(stream) returns all that an operation wrote, as a std::vector<Tensor>: the same bits whenever it runs
// and for any number of threads.
template <class Run>
void expect_same_bits_for_any_threads(Run&& run) {
  const std::vector<Tensor> expected = run(Host::Stream(1));
  for (int threads : {1, 2, 3, 5}) {
    const std::vector<Tensor> actual = run(Host::Stream(threads));
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i] == expected[i]) << "output " << i << ", " << threads << " threads";
    }
  }
}

// One row or column, less than a vector, one vector and a bit, whole vectors; the last ones have work for
// three threads. Every other extent has strided rows.
inline const std::vector<Extent> extents = {{1, 1},  {7, 1, 3},     {1, 7, 1},  {3, 16},      {33, 17, 15},
                                            {5, 64}, {130, 100, 4}, {131, 768}, {130, 777, 7}};

}  // namespace trilith::test
