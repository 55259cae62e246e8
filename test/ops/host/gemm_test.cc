// Matrix products: against float64, for every transposition, with strided rows, by any number of threads, and
// also where OpenMP's environment allows fewer threads than are asked for.
#include <omp.h>

#include <cmath>

#include <gtest/gtest.h>

#include <trilith/ops/host/gemm.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using ops::Transpose;
using test::Extent;
using test::random_tensor;
using test::Tensor;

struct Product {
  Index rows, columns, inner;
};

// A sum of n terms in float32 is wrong by at most n · 2^-24 of the sum of their sizes, in any order.
void expect_product(const Product& p, Transpose a_is, Transpose b_is, Accumulate accumulate, int threads) {
  SCOPED_TRACE(testing::Message() << p.rows << " × " << p.columns << " × " << p.inner << ", " << threads
                                  << " threads");
  const bool a_turned = a_is == Transpose::yes;
  const bool b_turned = b_is == Transpose::yes;
  const Tensor a = random_tensor(a_turned ? Extent{p.inner, p.rows, 3} : Extent{p.rows, p.inner, 3}, 1);
  const Tensor b = random_tensor(b_turned ? Extent{p.columns, p.inner, 5} : Extent{p.inner, p.columns, 5}, 2);
  const bool adds = accumulate == Accumulate::yes;
  const Tensor before = random_tensor({p.rows, p.columns, 7}, 3);
  Tensor c = adds ? before : Tensor({p.rows, p.columns, 7});
  ops::gemm(Host::Stream(threads), a_is, a.matrix(), b_is, b.matrix(), c.matrix(), accumulate);
  for (Index i = 0; i < p.rows; ++i) {
    for (Index j = 0; j < p.columns; ++j) {
      double sum = adds ? double{before(i, j)} : 0;
      double size = std::abs(sum);
      for (Index k = 0; k < p.inner; ++k) {
        const double term = double{a_turned ? a(k, i) : a(i, k)} * double{b_turned ? b(j, k) : b(k, j)};
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(c(i, j), sum, static_cast<double>(p.inner + 1) * 0x1p-24 * size) << i << ", " << j;
    }
  }
  EXPECT_TRUE(c.padding_untouched());
}

TEST(Gemm, IsTheProductForEveryTranspositionAndNumberOfThreads) {
  for (const Product& p : {Product{1, 1, 1}, {7, 5, 3}, {33, 65, 17}, {160, 190, 300}}) {
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
      for (const Transpose b : {Transpose::no, Transpose::yes}) {
        for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
          for (const int threads : {1, 2, 3, 8}) expect_product(p, a, b, accumulate, threads);
        }
      }
    }
  }
}

TEST(Gemm, OfNothingWritesNothing) {
  Tensor c({3, 2});
  const Tensor a = random_tensor({3, 4}, 1);
  const Tensor b = random_tensor({4, 2}, 2);
  ops::gemm(Host::Stream(1), Transpose::no, a.matrix().slice(0, 0, 0), Transpose::no, b.matrix(),
            c.matrix().slice(0, 0, 0));
  EXPECT_TRUE(std::isnan(c(0, 0)));
}

#ifdef TRILITH_TEST_FEW_THREADS
// The BUILD file runs these tests again with OMP_THREAD_LIMIT=2 and OMP_DYNAMIC=true.
TEST(Gemm, IsTestedInTheEnvironmentThatIsMeant) {
  EXPECT_EQ(omp_get_thread_limit(), 2);
}
#endif

}  // namespace
}  // namespace trilith
