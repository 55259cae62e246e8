// Matrix products by cuBLASLt against float64, and what its epilogues do against the same in two steps.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/gelu.hpp>
#include <trilith/ops/cuda/gemm.cuh>

#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using ops::Transpose;

constexpr Place place{.rank = 0};

// Of the distance between neighbouring values, over the value.
template <class T>
constexpr double precision = std::is_same_v<T, float> ? 0x1p-23
                                                      : (std::is_same_v<T, BFloat16> ? 0x1p-7 : 0x1p-10);

// A matrix in the GPU's memory whose rows are strided, by a multiple of 8 and `padding`, and its values in
// this program's.
template <class T>
class GpuMatrix {
 public:
  GpuMatrix(Cuda::Memory& memory, const Cuda::Stream& stream, Index rows, Index columns, std::uint64_t seed,
            Index padding = 8)
      : rows_(rows),
        columns_(columns),
        stride_(round_up(columns, Index{8}) + padding),
        elements_(memory, rows * stride_) {
    const Philox random(seed, 0);
    std::vector<T> values;
    for (Index i = 0; i < rows * stride_; ++i) {
      values.push_back(T(random.normal(static_cast<std::uint64_t>(i))));
    }
    upload(stream, values.data(), elements_.view());
    keep(values);
  }

  Matrix<T> view() const { return {elements_.data(), {rows_, columns_}, {stride_, 1}}; }
  Matrix<const T> const_view() const { return view(); }

  // As they were uploaded or, later, as they were read.
  double operator()(Index row, Index column) const {
    return values_[static_cast<std::size_t>(row * stride_ + column)];
  }
  void read(const Cuda::Stream& stream) { keep(elements_.values(stream)); }

 private:
  void keep(const std::vector<T>& values) {
    values_.clear();
    for (const T value : values) values_.push_back(static_cast<double>(static_cast<float>(value)));
  }

  Index rows_;
  Index columns_;
  Index stride_;
  GpuVector<T> elements_;
  std::vector<double> values_;
};

class CudaGemm : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    memory_ = std::make_unique<Cuda::Memory>(place);
    stream_ = std::make_unique<Cuda::Stream>(place);
  }

  template <class T>
  GpuMatrix<T> matrix(Index rows, Index columns, std::uint64_t seed, Index padding = 8) {
    return GpuMatrix<T>(*memory_, *stream_, rows, columns, seed, padding);
  }

  // A sum of n terms in float32 is wrong by at most n · 2^-23 of the sum of their sizes, in any order and
  // with sums that are cut off; then it is rounded to C.
  template <class T, class C>
  void expect_product(Index rows, Index columns, Index inner, Transpose a_is, Transpose b_is,
                      Accumulate accumulate, Index padding = 8) {
    SCOPED_TRACE(testing::Message() << rows << " × " << columns << " × " << inner << ", transposed "
                                    << (a_is == Transpose::yes) << (b_is == Transpose::yes) << ", adds "
                                    << (accumulate == Accumulate::yes) << ", padded by " << padding);
    const bool a_turned = a_is == Transpose::yes;
    const bool b_turned = b_is == Transpose::yes;
    const GpuMatrix<T> a = a_turned ? matrix<T>(inner, rows, 1, padding) : matrix<T>(rows, inner, 1, padding);
    const GpuMatrix<T> b =
        b_turned ? matrix<T>(columns, inner, 2, padding) : matrix<T>(inner, columns, 2, padding);
    const GpuMatrix<C> before = matrix<C>(rows, columns, 3, padding);
    GpuMatrix<C> c = matrix<C>(rows, columns, 3, padding);
    gemm(*stream_, a_is, a.view(), b_is, b.const_view(), c.view(), accumulate);
    c.read(*stream_);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < columns; ++j) {
        double sum = accumulate == Accumulate::yes ? before(i, j) : 0;
        double size = std::abs(sum);
        for (Index k = 0; k < inner; ++k) {
          const double term = (a_turned ? a(k, i) : a(i, k)) * (b_turned ? b(j, k) : b(k, j));
          sum += term;
          size += std::abs(term);
        }
        const double rounding = std::is_same_v<C, float> ? 0 : precision<C> * std::abs(sum) / 2;
        ASSERT_NEAR(c(i, j), sum, static_cast<double>(inner + 1) * 0x1p-23 * size + rounding)
            << i << ", " << j;
      }
      for (Index j = columns; j < columns + padding; ++j) {
        ASSERT_EQ(c(i, j), before(i, j)) << "between the rows";
      }
    }
  }

  template <class T, class C>
  void expect_products() {
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
      for (const Transpose b : {Transpose::no, Transpose::yes}) {
        for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
          expect_product<T, C>(64, 128, 256, a, b, accumulate);
          expect_product<T, C>(40, 24, 8, a, b, accumulate);
          expect_product<T, C>(1, 8, 16, a, b, accumulate);
        }
      }
    }
  }

  // Both with T's precision of the greatest, for one of them rounds on the way.
  template <class T>
  void expect_near(GpuMatrix<T>& actual, GpuMatrix<T>& expected, Index rows, Index columns) {
    actual.read(*stream_);
    expected.read(*stream_);
    double greatest = 0;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < columns; ++j) greatest = std::max(greatest, std::abs(expected(i, j)));
    }
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < columns; ++j) {
        ASSERT_NEAR(actual(i, j), expected(i, j), 16 * precision<T> * greatest) << i << ", " << j;
      }
    }
  }

  template <class T>
  void expect_fused() {
    constexpr Index rows = 48;
    constexpr Index columns = 64;
    constexpr Index inner = 32;
    const Cuda::Stream& s = *stream_;
    const auto no = Transpose::no;
    const GpuMatrix<T> a = matrix<T>(rows, inner, 1);
    const GpuMatrix<T> b = matrix<T>(inner, columns, 2);
    const GpuMatrix<T> bias = matrix<T>(1, columns, 3);
    const Vector<const T> bias_row(bias.view().data(), {columns});

    GpuMatrix<T> fused = matrix<T>(rows, columns, 4);
    GpuMatrix<T> apart = matrix<T>(rows, columns, 5);
    gemm_bias(s, no, a.const_view(), no, b.const_view(), bias_row, fused.view());
    gemm(s, no, a.view(), no, b.view(), apart.view());
    add_bias(s, bias_row, apart.view());
    expect_near(fused, apart, rows, columns);

    GpuMatrix<T> fused_gelu = matrix<T>(rows, columns, 6);
    GpuMatrix<T> apart_gelu = matrix<T>(rows, columns, 7);
    gemm_bias_gelu(s, no, a.const_view(), no, b.const_view(), bias_row, fused.view(), fused_gelu.view());
    gemm(s, no, a.view(), no, b.view(), apart.view());
    add_bias_gelu(s, bias_row, apart.view(), apart_gelu.view());
    expect_near(fused, apart, rows, columns);
    expect_near(fused_gelu, apart_gelu, rows, columns);

    gemm_gelu_backward(s, no, a.const_view(), no, b.const_view(), apart.const_view(), fused_gelu.view());
    gemm(s, no, a.view(), no, b.view(), apart_gelu.view());
    gelu_backward(s, apart.const_view(), apart_gelu.view());
    expect_near(fused_gelu, apart_gelu, rows, columns);

    // Weights (inner, columns) and (columns, inner), from x (rows, inner) and dy (rows, columns).
    const GpuMatrix<T> dy = matrix<T>(rows, columns, 8);
    for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
      GpuMatrix<float> fused_weight = matrix<float>(inner, columns, 9);
      GpuMatrix<float> apart_weight = matrix<float>(inner, columns, 9);
      GpuMatrix<float> fused_bias = matrix<float>(1, columns, 10);
      GpuMatrix<float> apart_bias = matrix<float>(1, columns, 10);
      const Vector<float> fused_sums(fused_bias.view().data(), {columns});
      const Vector<float> apart_sums(apart_bias.view().data(), {columns});
      gemm_bias_gradient(s, Transpose::yes, a.const_view(), no, dy.const_view(), fused_weight.view(),
                         dy.const_view(), fused_sums, accumulate);
      gemm(s, Transpose::yes, a.view(), no, dy.view(), apart_weight.view(), accumulate);
      bias_gradient(s, dy.const_view(), apart_sums, accumulate);
      expect_near(fused_weight, apart_weight, inner, columns);
      expect_near(fused_bias, apart_bias, 1, columns);

      GpuMatrix<float> fused_turned = matrix<float>(columns, inner, 11);
      GpuMatrix<float> apart_turned = matrix<float>(columns, inner, 11);
      gemm_bias_gradient(s, Transpose::yes, dy.const_view(), no, a.const_view(), fused_turned.view(),
                         dy.const_view(), fused_sums, accumulate);
      gemm(s, Transpose::yes, dy.view(), no, a.view(), apart_turned.view(), accumulate);
      bias_gradient(s, dy.const_view(), apart_sums, accumulate);
      expect_near(fused_turned, apart_turned, columns, inner);
      expect_near(fused_bias, apart_bias, 1, columns);
    }
  }

  // cuBLASLt does each of the epilogues itself, where 16-bit matrices lie as layers have them.
  template <class T>
  void expect_one_pass() {
    constexpr Index rows = 48;
    constexpr Index columns = 64;
    constexpr Index inner = 32;
    const auto no = Transpose::no;
    const auto yes = Transpose::yes;
    const GpuMatrix<T> x = matrix<T>(rows, inner, 1);
    const GpuMatrix<T> weight = matrix<T>(inner, columns, 2);
    const GpuMatrix<T> bias = matrix<T>(1, columns, 3);
    const GpuMatrix<T> y = matrix<T>(rows, columns, 4);
    const GpuMatrix<T> up = matrix<T>(rows, columns, 5);
    const GpuMatrix<float> gradient = matrix<float>(inner, columns, 6);
    const GpuMatrix<float> turned = matrix<float>(columns, inner, 7);
    const GpuMatrix<float> sums = matrix<float>(1, columns, 8);
    const auto fuses = [&](Transpose a_is, const GpuMatrix<T>& a, const GpuMatrix<T>& b, const auto& c,
                           const ops::detail::Side& side) {
      return ops::detail::run_fused<T>(*stream_, a_is, a.const_view(), no, b.const_view(), c.view(), side);
    };
    using ops::Epilogue;
    const T* const bias_row = bias.view().data();
    const float* const sum_row = sums.view().data();
    const T* const side = up.view().data();
    const Index stride = up.view().stride(0);
    EXPECT_TRUE(fuses(no, x, weight, y, {.epilogue = Epilogue::bias, .vector = bias_row}));
    EXPECT_TRUE(
        fuses(no, x, weight, y,
              {.epilogue = Epilogue::bias_gelu, .vector = bias_row, .matrix = side, .stride = stride}));
    EXPECT_TRUE(
        fuses(no, x, weight, y, {.epilogue = Epilogue::gelu_gradient, .matrix = side, .stride = stride}));
    EXPECT_TRUE(fuses(yes, x, y, gradient, {.epilogue = Epilogue::first_bias_gradient, .vector = sum_row}));
    EXPECT_TRUE(fuses(yes, y, x, turned, {.epilogue = Epilogue::second_bias_gradient, .vector = sum_row}));
  }

  std::unique_ptr<Cuda::Memory> memory_;
  std::unique_ptr<Cuda::Stream> stream_;
};

TEST_F(CudaGemm, IsTheProductOfFloats) {
  expect_products<float, float>();
  expect_product<float, float>(7, 5, 3, Transpose::no, Transpose::no, Accumulate::no);
}
TEST_F(CudaGemm, IsTheProductOfBfloat16s) {
  expect_products<BFloat16, BFloat16>();
  expect_products<BFloat16, float>();
}
TEST_F(CudaGemm, IsTheProductOfFloat16s) {
  expect_products<Float16, Float16>();
  expect_products<Float16, float>();
}

// cuBLASLt does not say whether it has algorithms for rows that begin at odd elements.
TEST_F(CudaGemm, OfHalvesInRowsThatAreNotAlignedIsTheProductOrRefused) {
  for (const Transpose a : {Transpose::no, Transpose::yes}) {
    for (const Transpose b : {Transpose::no, Transpose::yes}) {
      try {
        expect_product<BFloat16, float>(5, 7, 3, a, b, Accumulate::no, 1);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("cuBLASLt has no algorithm for a matrix product of"));
      }
    }
  }
}

TEST_F(CudaGemm, OfNothingIsNothingOrZero) {
  GpuMatrix<float> c = matrix<float>(4, 8, 1);
  const Matrix<const float> empty_a(nullptr, {4, 0});
  const Matrix<const float> empty_b(nullptr, {0, 8});
  const double before = c(3, 7);
  gemm(*stream_, Transpose::no, empty_a, Transpose::no, empty_b, c.view(), Accumulate::yes);
  c.read(*stream_);
  EXPECT_EQ(c(3, 7), before);
  gemm(*stream_, Transpose::no, empty_a, Transpose::no, empty_b, c.view());
  c.read(*stream_);
  const GpuMatrix<float> as_before = matrix<float>(4, 8, 1);
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 8; ++j) EXPECT_EQ(c(i, j), 0);
    for (Index j = 8; j < 16; ++j) EXPECT_EQ(c(i, j), as_before(i, j)) << "between the rows";
  }
}

TEST_F(CudaGemm, RepeatsBitForBit) {
  const GpuMatrix<BFloat16> a = matrix<BFloat16>(4096, 64, 1);
  const GpuMatrix<BFloat16> b = matrix<BFloat16>(4096, 64, 2);
  GpuMatrix<float> first = matrix<float>(64, 64, 3);
  gemm(*stream_, Transpose::yes, a.view(), Transpose::no, b.view(), first.view());
  first.read(*stream_);
  for (int run = 0; run < 10; ++run) {
    GpuMatrix<float> again = matrix<float>(64, 64, 3);
    gemm(*stream_, Transpose::yes, a.view(), Transpose::no, b.view(), again.view());
    again.read(*stream_);
    for (Index i = 0; i < 64; ++i) {
      for (Index j = 0; j < 64; ++j) ASSERT_EQ(again(i, j), first(i, j));
    }
  }
}

TEST_F(CudaGemm, WithAnEpilogueIsTheSameInOneStepAsInTwo) {
  expect_fused<float>();
  expect_fused<BFloat16>();
  expect_fused<Float16>();
}

TEST_F(CudaGemm, OfHalvesTakesOnePassForEachEpilogue) {
  expect_one_pass<BFloat16>();
  expect_one_pass<Float16>();
}

}  // namespace
}  // namespace trilith::test
