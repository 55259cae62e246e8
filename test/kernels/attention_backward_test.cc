// Gradients of attention in 16 bits, by kernels on the emulator, against float64.

#include <gtest/gtest.h>

#include "test/kernels/attention_backward_case.hpp"

namespace trilith::test {
namespace {

// As flash-attention's own tests have it: at most 3 times the error of attention that keeps scores and
// weights in memory, in 16 bits.
template <half T, class G>
void expect_gradients(const AttentionShape& s, const BackwardOptions& options = {}) {
  SCOPED_TRACE(testing::Message() << s << ", " << options.hops << " hops");
  const AttentionInputs x = inputs_in<T>(s);
  const ExpectedAttention expected(x);
  const UnfusedAttention<T> unfused(x);
  const BackwardResults y = backward_of<T, G>(x, expected, options);
  const auto bound = [](double error) { return 3 * error + 1e-5; };
  EXPECT_LE(greatest_error(y.dq, expected.dq, y.dq), bound(greatest_error(unfused.dq, expected.dq, y.dq)));
  EXPECT_LE(greatest_error(y.dk, expected.dk, y.dk), bound(greatest_error(unfused.dk, expected.dk, y.dk)));
  EXPECT_LE(greatest_error(y.dv, expected.dv, y.dv), bound(greatest_error(unfused.dv, expected.dv, y.dv)));
}

TEST(AttentionBackward, IsCloseToFloat64) {
  expect_gradients<BFloat16, float>({1, 128, 128, 1, 1, 64, causal});
  expect_gradients<BFloat16, float>({1, 128, 128, 1, 1, 128, causal});
  expect_gradients<BFloat16, float>({1, 128, 128, 1, 1, 256, causal});
}

}  // namespace
}  // namespace trilith::test
