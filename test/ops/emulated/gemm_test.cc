// Matrix products on the emulator's stream: of 16-bit factors as of what they are in float32, rounded once.
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/emulated/gemm.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using ops::Transpose;
using test::random_tensor;
using test::Tensor;

// Strided rows of T, the values of a tensor rounded to it.
template <class T>
struct Rounded {
  explicit Rounded(const Tensor& x) : wide(x), elements(static_cast<std::size_t>(x.rows() * stride())) {
    for (Index i = 0; i < x.rows(); ++i) {
      for (Index j = 0; j < x.columns(); ++j) {
        matrix()(i, j) = T(x(i, j));
        wide(i, j) = static_cast<float>(matrix()(i, j));
      }
    }
  }
  Index stride() const { return wide.columns() + 3; }
  Matrix<T> matrix() { return {elements.data(), {wide.rows(), wide.columns()}, {stride(), 1}}; }

  Tensor wide;
  std::vector<T> elements;
};

template <class T>
class EmulatedGemm : public testing::Test {};
using Elements = testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(EmulatedGemm, Elements);

TYPED_TEST(EmulatedGemm, IsTheHostsProductRoundedOnce) {
  using T = TypeParam;
  const Emulated::Stream stream;
  for (const Transpose a_is : {Transpose::no, Transpose::yes}) {
    for (const Transpose b_is : {Transpose::no, Transpose::yes}) {
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        Rounded<T> a(a_is == Transpose::yes ? random_tensor({17, 9}, 1) : random_tensor({9, 17}, 1));
        Rounded<T> b(b_is == Transpose::yes ? random_tensor({12, 17}, 2) : random_tensor({17, 12}, 2));
        Rounded<T> c(random_tensor({9, 12}, 3));
        Tensor sums = random_tensor({9, 12}, 4);
        Tensor expected = c.wide;
        Tensor expected_sums = sums;
        const auto on_host = [&](Tensor& to) {
          gemm(stream.host(), a_is, a.wide.matrix(), b_is, b.wide.matrix(), to.matrix(), accumulate);
        };
        on_host(expected);
        on_host(expected_sums);
        gemm(stream, a_is, Matrix<const T>(a.matrix()), b_is, b.matrix(), c.matrix(), accumulate);
        gemm(stream, a_is, a.matrix(), b_is, Matrix<const T>(b.matrix()), sums.matrix(), accumulate);
        for (Index i = 0; i < 9; ++i) {
          for (Index j = 0; j < 12; ++j) {
            EXPECT_EQ(static_cast<float>(c.matrix()(i, j)), static_cast<float>(T(expected(i, j))));
            EXPECT_EQ(sums(i, j), expected_sums(i, j));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trilith
