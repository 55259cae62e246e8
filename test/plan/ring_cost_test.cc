// The figures of docs/ring_attention.md on when a hop's computation hides its transfer.
#include <cmath>

#include <gtest/gtest.h>

#include <trilith/plan/ring_cost.hpp>

namespace trilith {
namespace {

constexpr RingRates nvlink{.flops = 400e12, .bytes_per_second = 450e9};
constexpr RingRates network{.flops = 400e12, .bytes_per_second = 50e9};  // 400 Gb/s
constexpr double bf16 = 2, f32 = 4;

// Any number of tokens and any dimension give the same answer.
constexpr RingHop hop(double kv_heads, bool causal = true) {
  return {.tokens = 1000, .heads = 64, .kv_heads = kv_heads, .dimension = 128, .causal = causal};
}

TEST(RingCost, CountsTheWorkOfAHop) {
  constexpr RingHop h{.tokens = 8192, .heads = 64, .kv_heads = 8, .dimension = 128};
  EXPECT_EQ(h.forward_flops(), 2.0 * 8192 * 8192 * 64 * 128);
  EXPECT_EQ(h.backward_flops(), 5.0 * 8192 * 8192 * 64 * 128);
  EXPECT_EQ(h.forward_bytes(bf16), 4.0 * 8192 * 8 * 128);
}

TEST(RingCost, SaysFromWhichLengthOnAHopIsHidden) {
  EXPECT_EQ(std::ceil(tokens_that_hide_forward(hop(64), nvlink, bf16)), 1778);
  EXPECT_EQ(std::ceil(tokens_that_hide_forward(hop(8), nvlink, bf16)), 223);
  EXPECT_EQ(std::round(tokens_that_hide_forward(hop(64), network, bf16)), 16000);
  EXPECT_EQ(std::round(tokens_that_hide_forward(hop(8), network, bf16)), 2000);
  EXPECT_EQ(std::ceil(tokens_that_hide_backward(hop(64), nvlink, bf16, f32)), 2134);
  EXPECT_EQ(std::ceil(tokens_that_hide_backward(hop(8), nvlink, bf16, f32)), 267);
  EXPECT_EQ(std::round(tokens_that_hide_backward(hop(64), network, bf16, f32)), 19200);
  EXPECT_EQ(std::round(tokens_that_hide_backward(hop(8), network, bf16, f32)), 2400);
}

// 2 (F / B) (h_kv / h_q) forward, half of it without a mask; backward 1.6 (F / B) … with gradients of 16
// bits, 2.4 with 32.
TEST(RingCost, IsTheRuleOfThumb) {
  for (const double kv_heads : {64.0, 8.0, 1.0}) {
    const double ratio = 400e12 / 50e9 * kv_heads / 64;
    EXPECT_DOUBLE_EQ(tokens_that_hide_forward(hop(kv_heads), network, bf16), 2 * ratio);
    EXPECT_DOUBLE_EQ(tokens_that_hide_forward(hop(kv_heads, false), network, bf16), ratio);
    EXPECT_DOUBLE_EQ(tokens_that_hide_backward(hop(kv_heads), network, bf16, bf16), 1.6 * ratio);
    EXPECT_DOUBLE_EQ(tokens_that_hide_backward(hop(kv_heads), network, bf16, f32), 2.4 * ratio);
  }
}

}  // namespace
}  // namespace trilith
