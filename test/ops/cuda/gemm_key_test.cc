// What cuBLASLt is asked for is the product that was meant, for every transposition and with strided rows;
// and two products share a plan only where all that matters is equal.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/cuda/gemm_key.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using ops::ElementType;
using ops::GemmKey;
using ops::Transpose;
using test::Extent;
using test::random_tensor;
using test::Tensor;

// The element that a key's result has at (row, column), columns first, by the definition of a BLAS.
double element(const GemmKey& key, const float* first, const float* second, Index row, Index column) {
  double sum = 0;
  for (Index k = 0; k < key.inner; ++k) {
    const Index i = key.transpose_first ? k + row * key.first_stride : row + k * key.first_stride;
    const Index j = key.transpose_second ? column + k * key.second_stride : k + column * key.second_stride;
    sum += double{first[i]} * double{second[j]};
  }
  return sum;
}

TEST(GemmKey, ColumnsFirstItIsTheProductForEveryTransposition) {
  constexpr Index rows = 5;
  constexpr Index columns = 7;
  constexpr Index inner = 3;
  for (const Transpose a_is : {Transpose::no, Transpose::yes}) {
    for (const Transpose b_is : {Transpose::no, Transpose::yes}) {
      const bool a_turned = a_is == Transpose::yes;
      const bool b_turned = b_is == Transpose::yes;
      const Tensor a = random_tensor(a_turned ? Extent{inner, rows, 3} : Extent{rows, inner, 3}, 1);
      const Tensor b = random_tensor(b_turned ? Extent{columns, inner, 5} : Extent{inner, columns, 5}, 2);
      Tensor c({rows, columns, 7});
      const GemmKey key = ops::gemm_key(a_is, a.matrix(), b_is, b.matrix(), c.matrix(), Accumulate::no);
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < columns; ++j) {
          double expected = 0;
          for (Index k = 0; k < inner; ++k) {
            expected += double{a_turned ? a(k, i) : a(i, k)} * double{b_turned ? b(j, k) : b(k, j)};
          }
          EXPECT_EQ(element(key, b.matrix().data(), a.matrix().data(), j, i), expected);
          EXPECT_EQ(&c(i, j), c.matrix().data() + j + i * key.result_stride);
        }
      }
    }
  }
}

TEST(GemmKey, TellsElementTypesApart) {
  const Matrix<const BFloat16> factor(nullptr, {8, 8});
  const GemmKey same = ops::gemm_key(Transpose::no, factor, Transpose::no, factor,
                                     Matrix<BFloat16>(nullptr, {8, 8}), Accumulate::no);
  const GemmKey wide = ops::gemm_key(Transpose::no, factor, Transpose::no, factor,
                                     Matrix<float>(nullptr, {8, 8}), Accumulate::no);
  EXPECT_EQ(same.factors, ElementType::bfloat16);
  EXPECT_EQ(same.result, ElementType::bfloat16);
  EXPECT_EQ(wide.result, ElementType::float32);
  EXPECT_NE(same, wide);
}

// So that a plan, and with it the bits of a product, does not depend on where in an arena its matrices lie.
TEST(GemmKey, IsTheSameWhereverMatricesBeginAtMultiplesOf16Bytes) {
  alignas(64) float memory[256] = {};
  const auto key_at = [&](Index offset) {
    const Matrix<const float> factor(memory + offset, {4, 4});
    return ops::gemm_key(Transpose::no, factor, Transpose::no, factor, Matrix<float>(memory + 128, {4, 4}),
                         Accumulate::no);
  };
  EXPECT_EQ(key_at(0), key_at(4));
  EXPECT_EQ(key_at(0), key_at(8));
  EXPECT_NE(key_at(0), key_at(1));
  EXPECT_EQ(key_at(1).first_alignment, 4);
  EXPECT_EQ(key_at(2).first_alignment, 8);
}

TEST(GemmKey, ASingleRowMayHaveAnyStride) {
  const Matrix<const float> row(nullptr, {1, 8}, {0, 1});
  const Matrix<const float> square(nullptr, {8, 8});
  const GemmKey key = ops::gemm_key(Transpose::no, row, Transpose::no, square,
                                    Matrix<float>(nullptr, {1, 8}, {0, 1}), Accumulate::no);
  EXPECT_EQ(key.second_stride, 8);
  EXPECT_EQ(key.result_stride, 8);
}

TEST(GemmKey, ShapesThatDontFitAreRefused) {
  const Matrix<const float> a(nullptr, {2, 3});
  const Matrix<const float> b(nullptr, {4, 5});
  try {
    static_cast<void>(
        ops::gemm_key(Transpose::no, a, Transpose::yes, b, Matrix<float>(nullptr, {2, 4}), Accumulate::no));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("matrix product of 2 × 3 and 5 × 4 into 2 × 4"));
  }
}

}  // namespace
}  // namespace trilith
