// What CUB, Thrust and the runtime's copies do for operations.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda/algorithms.cuh>
#include <trilith/ops/cuda/transfer.cuh>

#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

constexpr Place place{.rank = 0};

class CudaLibrary : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    memory_ = std::make_unique<Cuda::Memory>(place);
    stream_ = std::make_unique<Cuda::Stream>(place);
  }

  std::unique_ptr<Cuda::Memory> memory_;
  std::unique_ptr<Cuda::Stream> stream_;
};

std::vector<float> random_values(Index count) {
  const Philox random(3, 0);
  std::vector<float> values;
  for (Index i = 0; i < count; ++i) values.push_back(random.normal(static_cast<std::uint64_t>(i)));
  return values;
}

TEST_F(CudaLibrary, SumOfSquaresIsThatOfFloat64AndRepeats) {
  const GpuVector<double> sum(*memory_, 2);
  for (const Index count : {0, 1, 1000, 3000001}) {
    const std::vector<float> values = random_values(count);
    const GpuVector<float> x(*memory_, *stream_, values);
    double expected = 0;
    for (const float value : values) expected += double{value} * double{value};
    sum_of_squares(*stream_, x.const_view(), sum.view().slice(0, 0, 1));
    sum_of_squares(*stream_, x.const_view(), sum.view().slice(0, 1, 1));
    const std::vector<double> sums = sum.values(*stream_);
    EXPECT_NEAR(sums[0], expected, 1e-12 * expected);
    EXPECT_EQ(sums[0], sums[1]);
  }
}

TEST_F(CudaLibrary, SumOfSquaresIsInfiniteOnlyWhereAnElementIs) {
  const GpuVector<double> sum(*memory_, 1);
  const float greatest = std::numeric_limits<float>::max();
  const GpuVector<float> large(*memory_, *stream_, {greatest, greatest});
  sum_of_squares(*stream_, large.const_view(), sum.view());
  EXPECT_TRUE(std::isfinite(sum.values(*stream_)[0]));
  const GpuVector<float> infinite(*memory_, *stream_, {1, std::numeric_limits<float>::infinity()});
  sum_of_squares(*stream_, infinite.const_view(), sum.view());
  EXPECT_TRUE(std::isinf(sum.values(*stream_)[0]));
}

TEST_F(CudaLibrary, FillFillsItsPart) {
  const GpuVector<float> x(*memory_, *stream_, std::vector<float>(100, 1.0f));
  fill(*stream_, x.view().slice(0, 3, 90), 2.5f);
  std::vector<float> expected(100, 1.0f);
  std::fill_n(expected.begin() + 3, 90, 2.5f);
  EXPECT_EQ(x.values(*stream_), expected);
  const GpuVector<BFloat16> y(*memory_, 5);
  fill(*stream_, y.view(), -2);
  for (const BFloat16 value : y.values(*stream_)) EXPECT_EQ(static_cast<float>(value), -2);
}

// Also of more than is staged at once; and what is uploaded may be overwritten at once.
TEST_F(CudaLibrary, UploadsMayBeReusedWhenTheCallReturns) {
  for (const Index count : {1, 262144, 1000003}) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    const std::vector<std::int32_t> expected = values;
    const GpuVector<std::int32_t> first(*memory_, count);
    const GpuVector<std::int32_t> second(*memory_, count);
    upload(*stream_, values.data(), first.view());
    std::fill(values.begin(), values.end(), -1);
    upload(*stream_, values.data(), second.view());
    std::fill(values.begin(), values.end(), -2);
    EXPECT_EQ(first.values(*stream_), expected);
    EXPECT_EQ(second.values(*stream_), std::vector<std::int32_t>(expected.size(), -1));
  }
}

}  // namespace
}  // namespace trilith::test
