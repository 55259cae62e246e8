// Attention in float32 on the emulator, against the definition in float64.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/device/emulated.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention_float.hpp>
#include <trilith/ops/host/attention.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::causal;
using test::full;
using test::heads_of;
using test::NamedMask;
using test::per_query;
using Shape = test::AttentionShape;
using Inputs = test::AttentionInputs;
using Results = test::AttentionResults;
using Expected = test::ExpectedAttention;

const std::vector<simt::Emulation> emulations{{}, {.seed = 3, .landing = simt::Landing::late}};

// Sums of float32 products over a few dozen keys and columns.
constexpr double rounding = 2e-6;

// The keys in `hops` equal parts, each with a carry in memory.
Results attend(const Emulated::Stream& stream, const Inputs& x, Index hops = 1) {
  const Shape& s = x.shape;
  Results y(s);
  test::Tensor carried({s.batch * s.queries, s.heads * s.dimension, 4});
  test::Tensor maximum({s.batch * s.heads, s.queries});
  test::Tensor sum({s.batch * s.heads, s.queries});
  const ops::AttentionCarry carry{heads_of(carried, s.batch, s.dimension), per_query(maximum, s),
                                  per_query(sum, s)};
  const Index part = s.keys / hops;
  const BoundMask bound = s.mask.mask.of(s.queries, s.keys);
  const auto each_hop = [&](auto&& body) {
    for (Index hop = 0; hop < hops; ++hop) {
      const Index from = (hop + 1) % hops * part;  // not in their order
      std::vector<std::int32_t> first, last;
      for (Index i = 0; i < s.queries; ++i) {
        const KeyInterval keys = bound.keys_of(i);
        first.push_back(static_cast<std::int32_t>(std::clamp<Index>(keys.first - from, 0, part)));
        last.push_back(static_cast<std::int32_t>(std::clamp<Index>(keys.last - from, 0, part)));
      }
      const auto keys_of = [&](auto& tensor) {
        return heads_of(tensor, s.batch, s.dimension).slice(1, from, part);
      };
      body(ops::Hop{.first = hop == 0, .last = hop == hops - 1},
           ops::KeyRanges{{first.data(), {s.queries}}, {last.data(), {s.queries}}}, keys_of);
    }
  };
  each_hop([&](ops::Hop hop, const ops::KeyRanges& ranges, auto keys_of) {
    attention(stream, heads_of(x.q, s.batch, s.dimension), keys_of(x.k), keys_of(x.v), x.settings(), ranges,
              hop, carry, heads_of(y.out, s.batch, s.dimension), per_query(y.lse, s));
  });
  attention_delta(stream, heads_of(y.out, s.batch, s.dimension), heads_of(x.d_out, s.batch, s.dimension),
                  per_query(y.delta, s));
  each_hop([&](ops::Hop hop, const ops::KeyRanges& ranges, auto keys_of) {
    attention_backward(stream, heads_of(x.q, s.batch, s.dimension), keys_of(x.k), keys_of(x.v),
                       per_query(y.lse, s), per_query(y.delta, s), heads_of(x.d_out, s.batch, s.dimension),
                       x.settings(), ranges, hop, carry.out, heads_of(y.dq, s.batch, s.dimension),
                       keys_of(y.dk), keys_of(y.dv));
  });
  return y;
}

void expect_near(const Results& y, const Expected& expected) {
  EXPECT_LE(test::norm_error(y.out, expected.out), rounding);
  EXPECT_LE(test::norm_error(y.lse, expected.lse), rounding);
  EXPECT_LE(test::norm_error(y.dq, expected.dq), rounding);
  EXPECT_LE(test::norm_error(y.dk, expected.dk), rounding);
  EXPECT_LE(test::norm_error(y.dv, expected.dv), rounding);
  for (const test::Tensor& tensor : y.all()) EXPECT_TRUE(tensor.padding_untouched());
}

TEST(AttentionFloat, EqualsTheReferenceForEverySize) {
  for (const simt::Emulation& emulation : emulations) {
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1, 1, 1},
                                                 {2, 17, 33, 4, 2, 8, full},
                                                 {1, 33, 65, 3, 1, 6, causal},
                                                 {1, 20, 40, 2, 2, 64, causal},
                                                 {1, 16, 32, 1, 1, 100, causal},
                                                 {1, 17, 20, 1, 1, 256, causal}}) {
      SCOPED_TRACE(testing::Message() << shape << ", seed " << emulation.seed);
      const Inputs inputs(shape);
      const Emulated::Stream stream(emulation);
      expect_near(attend(stream, inputs), Expected(inputs));
      if (shape.dimension % simt::warp_size == 0) {
        EXPECT_EQ(stream.counters().bank_conflicts(), 0);
      }
    }
  }
}

TEST(AttentionFloat, EqualsTheReferenceForEveryMaskWithCapsAndSinks) {
  const Emulated::Stream stream(emulations[1]);
  for (const NamedMask& mask :
       {causal, NamedMask{"window", mask::sliding_window(9, 0)},
        NamedMask{"documents", mask::documents({0, 12, 20, 40}, {0, 1, 30, 40}) & mask::causal()}}) {
    for (const float soft_cap : {0.0f, 1.5f}) {
      for (const bool sinks : {false, true}) {
        const Inputs inputs({1, 40, 40, 2, 1, 16, mask, 1, soft_cap, sinks});
        SCOPED_TRACE(inputs.shape);
        expect_near(attend(stream, inputs), Expected(inputs));
      }
    }
  }
}

TEST(AttentionFloat, InHopsEqualsAttentionToAllKeys) {
  const Emulated::Stream stream(emulations[1]);
  for (const bool sinks : {false, true}) {
    const Inputs inputs({2, 30, 60, 4, 2, 24, {"window", mask::sliding_window(25, 5)}, 1, 0, sinks});
    SCOPED_TRACE(inputs.shape);
    expect_near(attend(stream, inputs, 3), Expected(inputs));
  }
}

TEST(AttentionFloat, GivesKeysThatNoQuerySeesZeros) {
  constexpr Index dimension = 8;
  const test::Tensor keys = test::random_tensor({3, dimension}, 1);
  test::Tensor dk({3, dimension}), dv({3, dimension});
  const View<float, 4> no_queries(nullptr, {1, 0, 1, dimension});
  const View<float, 3> of_none(nullptr, {1, 1, 0});
  attention_backward(Emulated::Stream(), no_queries, heads_of(keys, 1, dimension),
                     heads_of(keys, 1, dimension), of_none, of_none, no_queries, {}, {}, {}, View<float, 4>(),
                     no_queries, heads_of(dk, 1, dimension), heads_of(dv, 1, dimension));
  for (Index i = 0; i < 3 * dimension; ++i) {
    EXPECT_EQ(dk[i], 0);
    EXPECT_EQ(dv[i], 0);
  }
}

TEST(AttentionFloat, RefusesHeadsThatAreTooWide) {
  const Inputs inputs({1, 1, 1, 1, 1, 257});
  EXPECT_THROW(attend(Emulated::Stream(), inputs), Error);
}

}  // namespace
}  // namespace trilith
