#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/elementwise.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

// A few roundings to float32, each of at most 2^-24.
constexpr double rounding = 2e-7;

TEST(AddBias, AddsTheBiasToEveryRow) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor bias = random_tensor(extent.columns, 1);
    const Tensor x = random_tensor(extent, 2);
    Tensor y = x;
    ops::add_bias(Host::Stream(3), bias.vector(), y.matrix());
    Reference expected(extent.rows, extent.columns);
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) expected(r, c) = double{x(r, c)} + double{bias[c]};
    }
    EXPECT_LE(relative_error(y, expected), rounding);
    EXPECT_TRUE(y.padding_untouched());
  }
}

TEST(AddBiasResidual, AddsBiasAndResidual) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor bias = random_tensor(extent.columns, 1);
    const Tensor residual = random_tensor({extent.rows, extent.columns, 5}, 3);
    const Tensor x = random_tensor(extent, 2);
    Tensor y = x;
    ops::add_bias_residual(Host::Stream(3), bias.vector(), residual.matrix(), y.matrix());
    Reference expected(extent.rows, extent.columns);
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) {
        expected(r, c) = double{x(r, c)} + double{bias[c]} + double{residual(r, c)};
      }
    }
    EXPECT_LE(relative_error(y, expected), rounding);
    EXPECT_TRUE(y.padding_untouched());
  }
}

TEST(BiasGradient, IsTheSumOfTheRows) {
  for (const Extent extent : test::extents) {
    SCOPED_TRACE(extent);
    const Tensor dy = random_tensor(extent, 1, 1.0f, 0.5f);
    Reference expected(extent.columns);
    for (Index r = 0; r < extent.rows; ++r) {
      for (Index c = 0; c < extent.columns; ++c) expected[c] += double{dy(r, c)};
    }
    Tensor db(extent.columns);
    ops::bias_gradient(Host::Stream(3), dy.matrix(), db.vector(), Accumulate::no);
    // At most 66 roundings in a row, and the largest sum is of the order of the largest partial one.
    EXPECT_LE(relative_error(db, expected), 1e-6);

    const Tensor before = random_tensor(extent.columns, 2, 10.0f);
    db = before;
    ops::bias_gradient(Host::Stream(3), dy.matrix(), db.vector(), Accumulate::yes);
    for (Index c = 0; c < extent.columns; ++c) expected[c] += double{before[c]};
    EXPECT_LE(relative_error(db, expected), 1e-6);
  }
}

TEST(BiasGradient, OfNoRowsIsZero) {
  Tensor db(Index{17});
  ops::bias_gradient(Host::Stream(2), Tensor({0, 17}).matrix(), db.vector(), Accumulate::no);
  for (Index c = 0; c < 17; ++c) EXPECT_EQ(db[c], 0.0f);
}

TEST(VectorOperations, DoWhatTheirNamesSay) {
  for (Index size : {1, 7, 16, 17, 33, 100000}) {
    SCOPED_TRACE(size);
    const Host::Stream stream(3);
    const Tensor x = random_tensor(size, 1);
    const Tensor y = random_tensor(size, 2);

    Tensor sum = y;
    ops::add(stream, x.vector(), sum.vector());
    Tensor scaled = y;
    ops::scale(stream, 0.3f, scaled.vector());
    Tensor filled(size);
    ops::fill(stream, filled.vector(), -2.5f);
    Tensor copied(size);
    ops::copy(stream, x.vector(), copied.vector());
    for (Index i = 0; i < size; ++i) {
      ASSERT_EQ(sum[i], y[i] + x[i]);
      ASSERT_EQ(scaled[i], 0.3f * y[i]);
      ASSERT_EQ(filled[i], -2.5f);
    }
    EXPECT_TRUE(copied == x);
  }
}

TEST(VectorOperations, StopAtTheEndOfAPart) {
  for (Index size : {1, 15, 16, 17, 50001}) {
    const Host::Stream stream(3);
    const Tensor x = random_tensor(size + 1, 1);
    Tensor y = x;
    const auto part = y.vector().slice(0, 0, size);
    ops::add(stream, x.vector().slice(0, 0, size), part);
    ops::scale(stream, 2.0f, part);
    ops::fill(stream, part, 1.0f);
    ops::copy(stream, x.vector().slice(0, 0, size), part);
    EXPECT_TRUE(y == x) << size;
  }
}

TEST(Elementwise, SameBitsForAnyNumberOfThreads) {
  for (const Extent extent : {Extent{600, 257, 3}, Extent{97, 3072}}) {
    const Tensor bias = random_tensor(extent.columns, 1);
    const Tensor residual = random_tensor(extent, 2);
    const Tensor x = random_tensor(extent, 3);
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      Tensor biased = x;
      ops::add_bias(stream, bias.vector(), biased.matrix());
      Tensor added = x;
      ops::add_bias_residual(stream, bias.vector(), residual.matrix(), added.matrix());
      Tensor db = bias;
      ops::bias_gradient(stream, x.matrix(), db.vector(), Accumulate::yes);
      return std::vector<Tensor>{biased, added, db};
    });
  }
}

}  // namespace
}  // namespace trilith
