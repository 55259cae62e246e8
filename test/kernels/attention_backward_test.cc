// Gradients of attention in 16 bits, by kernels on the emulator, against float64.

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/kernels/attention_backward_tile.hpp>

#include "test/kernels/attention_backward_case.hpp"
#include "test/kernels/attention_case.hpp"

namespace trilith::test {
namespace {

const NamedMask window{"window", mask::sliding_window(20, 9)};

// Documents whose queries have no keys lie between others.
const NamedMask some_without_keys{
    "documents, some without keys",
    mask::documents({0, 3, 20, 21, 70, 75, 131}, {0, 0, 40, 40, 47, 47, 90}) & mask::causal()};

// Shared memory of a block: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr bool tiles_fit(int architecture, int kib) {
  for (const int width : {64, 128, 256}) {
    const auto queries = kernels::attention_backward_queries_tile(architecture, width);
    if (queries.queries_shared_bytes() > kib * 1024 || queries.warp_rows() % 16 != 0) return false;
    for (const auto mask : {kernels::HopMask::intervals, kernels::HopMask::rectangle}) {
      for (const bool adds_dq : {false, true}) {
        const auto keys = kernels::attention_backward_keys_tile(architecture, width, mask, adds_dq);
        if (keys.keys_shared_bytes() > kib * 1024 || keys.warp_rows() % 16 != 0) return false;
      }
    }
  }
  return true;
}
static_assert(tiles_fit(80, 163) && tiles_fit(89, 99) && tiles_fit(90, 227) && tiles_fit(100, 227) &&
              tiles_fit(120, 99));

// As flash-attention's own tests have it: at most 3 times the error of attention that keeps scores and
// weights in memory, in 16 bits. `tiny` is for gradients that this has exactly.
template <half T, class G>
void expect_gradients(const AttentionShape& s, const BackwardOptions& options = {}) {
  SCOPED_TRACE(testing::Message() << s << ", " << options.hops << " hops");
  const AttentionInputs x = inputs_in<T>(s);
  const ExpectedAttention expected(x);
  const UnfusedAttention<T> unfused(x);
  const BackwardResults y = backward_of<T, G>(x, expected, options);
  const auto close = [](const Tensor& actual, const Reference& exact, const Reference& plain) {
    constexpr double tiny = 1e-5;
    EXPECT_LE(greatest_error(actual, exact, actual), 3 * greatest_error(plain, exact, actual) + tiny);
  };
  close(y.dq, expected.dq, unfused.dq);
  close(y.dk, expected.dk, unfused.dk);
  close(y.dv, expected.dv, unfused.dv);
  for (Index h = 0; s.sinks && h < s.heads; ++h) {
    // delta is of outputs in 16 bits.
    EXPECT_NEAR(y.d_sinks[h], expected.d_sinks[h], 1e-3 * static_cast<double>(s.batch * s.queries));
  }
}

template <half T, class G>
void expect_gradients(const std::vector<AttentionShape>& shapes, const BackwardOptions& options = {}) {
  for (const AttentionShape& s : shapes) expect_gradients<T, G>(s, options);
}

TEST(AttentionBackward, IsCloseToFloat64InEveryDimension) {
  for (const Index dimension : {64, 128, 256, 40, 72, 200}) {
    expect_gradients<BFloat16, float>({1, 130, 130, 1, 1, dimension, causal});
    expect_gradients<Float16, Float16>({1, 130, 130, 1, 1, dimension, causal});
  }
}

TEST(AttentionBackward, IsCloseToFloat64UnderEveryMask) {
  const std::vector<AttentionShape> shapes = {{1, 128, 256, 1, 1, 64, full},
                                              {2, 77, 131, 1, 1, 64, full},
                                              {1, 200, 76, 1, 1, 64, causal},
                                              {1, 76, 200, 2, 1, 64, causal},
                                              {1, 1, 1, 1, 1, 64, causal},
                                              {1, 300, 300, 1, 1, 64, window},
                                              {1, 131, 90, 1, 1, 64, some_without_keys},
                                              {1, 131, 333, 1, 1, 64, gap_of(131, 333)}};
  for (AttentionShape s : shapes) {
    expect_gradients<Float16, float>(s);
    s.dimension = 128;
    expect_gradients<BFloat16, BFloat16>(s);
  }
}

TEST(AttentionBackward, TakesARectangleAsWhatItIsOrAsIntervals) {
  for (const Index dimension : {64, 128, 256}) {
    const AttentionShape s{1, 200, 300, 2, 1, dimension, inner_rectangle(200, 300)};
    expect_gradients<BFloat16, float>(s);
    expect_gradients<Float16, Float16>(s, {.intervals = true});
    expect_gradients<BFloat16, float>(s, {.hops = 3});
    expect_gradients<Float16, float>(s, {.dq_order = ops::DqOrder::any});
  }
}

TEST(AttentionBackward, SumsOverTheQueryHeadsOfAGroup) {
  expect_gradients<BFloat16, float>({2, 90, 70, 6, 2, 64, causal});
  expect_gradients<Float16, Float16>({1, 64, 130, 6, 2, 128, full});
}

TEST(AttentionBackward, KnowsSoftCapsAndSinks) {
  expect_gradients<BFloat16, float>({1, 130, 130, 2, 1, 64, causal, 4, 5.0f});
  expect_gradients<Float16, Float16>({1, 130, 130, 2, 1, 128, causal, 4, 5.0f});
  expect_gradients<BFloat16, float>({2, 130, 130, 2, 1, 64, causal, 1, 0, true});
  expect_gradients<Float16, float>({1, 131, 90, 3, 1, 40, some_without_keys, 1, 0, true});
}

TEST(AttentionBackward, KeepsLargeLogits) {
  expect_gradients<BFloat16, float>({1, 130, 130, 1, 1, 64, causal, 50});
  expect_gradients<Float16, float>({1, 130, 130, 1, 1, 128, causal, 50});
}

TEST(AttentionBackward, GathersOverHops) {
  for (const int hops : {2, 4}) {
    expect_gradients<BFloat16, float>({1, 130, 200, 2, 1, 64, causal}, {.hops = hops});
    expect_gradients<Float16, float>({1, 131, 90, 1, 1, 128, some_without_keys}, {.hops = hops});
    expect_gradients<BFloat16, float>({1, 70, 130, 1, 1, 256, full}, {.hops = hops});
  }
}

TEST(AttentionBackward, SumsDqInAnyOrderToo) {
  const simt::Emulation shuffled{.seed = 4, .landing = simt::Landing::late};
  const BackwardOptions any{.emulation = shuffled, .hops = 1, .dq_order = ops::DqOrder::any};
  const BackwardOptions hops{.emulation = shuffled, .hops = 2, .dq_order = ops::DqOrder::any};
  expect_gradients<BFloat16, float>({2, 150, 140, 2, 1, 64, causal}, any);
  expect_gradients<Float16, Float16>({1, 150, 140, 2, 1, 72, causal}, any);
  expect_gradients<BFloat16, float>({1, 131, 90, 1, 1, 256, some_without_keys}, any);
  expect_gradients<BFloat16, float>({1, 131, 333, 1, 1, 64, gap_of(131, 333)}, any);
  expect_gradients<BFloat16, float>({1, 150, 140, 2, 1, 64, causal}, hops);
}

TEST(AttentionBackward, GivesNothingWhereNothingIsSeen) {
  const AttentionShape s{1, 131, 90, 2, 1, 64, some_without_keys};
  const BoundMask bound = s.mask.mask.of(s.queries, s.keys);
  const AttentionInputs x = inputs_in<BFloat16>(s);
  const BackwardResults y = backward_of<BFloat16, float>(x, ExpectedAttention(x));
  Index rows = 0;
  for (Index i = 0; i < s.queries; ++i) {
    if (bound.keys_of(i).size() > 0) continue;
    ++rows;
    for (Index c = 0; c < y.dq.columns(); ++c) ASSERT_EQ(y.dq(i, c), 0) << "query " << i;
  }
  EXPECT_GT(rows, 5);
  for (Index j = 0; j < s.keys; ++j) {
    bool seen = false;
    for (Index i = 0; i < s.queries; ++i) seen |= bound.sees(i, j);
    for (Index c = 0; !seen && c < y.dk.columns(); ++c) {
      ASSERT_EQ(y.dk(j, c), 0) << "key " << j;
      ASSERT_EQ(y.dv(j, c), 0) << "key " << j;
    }
  }
}

TEST(AttentionBackward, DoesNotMindWhatLiesAtKeysOfNobody) {
  const AttentionInputs x = inputs_in<Float16>({1, 130, 70, 2, 1, 64, full});
  const ExpectedAttention expected(x);
  for (const bool intervals : {false, true}) {
    for (const auto order : {ops::DqOrder::ascending, ops::DqOrder::any}) {
      BackwardOptions options{.intervals = intervals, .dq_order = order};
      const BackwardResults y = backward_of<Float16, float>(x, expected, options);
      options.keys_of_nobody = 70;
      const BackwardResults more = backward_of<Float16, float>(x, expected, options);
      EXPECT_TRUE(more.dq == y.dq);
      for (Index j = 0; j < 140; ++j) {
        for (Index c = 0; c < 64; ++c) {
          ASSERT_EQ(more.dk(j, c), j < 70 ? y.dk(j, c) : 0) << "key " << j;
          ASSERT_EQ(more.dv(j, c), j < 70 ? y.dv(j, c) : 0) << "key " << j;
        }
      }
    }
  }
}

// Nothing to attend to at all.
TEST(AttentionBackward, IsZeroWithoutKeysOrQueries) {
  const AttentionInputs no_keys = inputs_in<BFloat16>({1, 5, 0, 1, 1, 64, full});
  const BackwardResults y = backward_of<BFloat16, float>(no_keys, ExpectedAttention(no_keys));
  for (Index i = 0; i < 5 * 64; ++i) ASSERT_EQ(y.dq[i], 0);
  const AttentionInputs no_queries = inputs_in<BFloat16>({1, 0, 5, 1, 1, 64, full});
  const BackwardResults z = backward_of<BFloat16, float>(no_queries, ExpectedAttention(no_queries));
  for (Index i = 0; i < 5 * 64; ++i) ASSERT_EQ(z.dk[i] + z.dv[i], 0);
}

TEST(AttentionBackward, AddsToGradientsWhereAsked) {
  const AttentionInputs x = inputs_in<BFloat16>({1, 70, 130, 2, 1, 40, causal, 1, 0, true});
  const ExpectedAttention expected(x);
  const BackwardResults y = backward_of<BFloat16, float>(x, expected);
  const BackwardResults added = backward_of<BFloat16, float>(x, expected, {.accumulate = Accumulate::yes});
  for (Index h = 0; h < 2; ++h) EXPECT_NEAR(added.d_sinks[h], y.d_sinks[h] + 1, 1e-5);
  for (Index row = 0; row < y.dk.rows(); ++row) {
    for (Index c = 0; c < y.dk.columns(); ++c) {
      ASSERT_EQ(added.dk(row, c), y.dk(row, c) + 1.0f);
      ASSERT_EQ(added.dv(row, c), y.dv(row, c) + 1.0f);
    }
  }
}

std::string refusal(const AttentionShape& s, Index padding) {
  const AttentionInputs x = inputs_in<BFloat16>(s);
  try {
    backward_of<BFloat16, float>(x, ExpectedAttention(x), {.padding = padding});
  } catch (const Error& error) {
    return error.problem();
  }
  return "";
}

TEST(AttentionBackward, RefusesRowsThatDoNotFitItsLoads) {
  EXPECT_EQ(refusal({1, 3, 3, 1, 1, 36, full}, 12), "attention with heads of dimension 36");
  EXPECT_EQ(refusal({1, 3, 3, 1, 1, 264, full}, 8), "attention with heads of dimension 264");
  EXPECT_EQ(refusal({1, 3, 3, 1, 1, 64, full}, 4),
            "attention: a row does not begin at a multiple of 16 bytes");
}

// The same bits whatever lane or block runs first, and whenever copies land.
template <half T>
void expect_same_bits(const AttentionShape& s, int hops) {
  SCOPED_TRACE(s);
  const AttentionInputs x = inputs_in<T>(s);
  const ExpectedAttention expected(x);
  const std::vector<Tensor> natural = backward_of<T, float>(x, expected, {.hops = hops}).all();
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto landing = seed % 2 == 1 ? simt::Landing::late : simt::Landing::at_once;
    const auto shuffled =
        backward_of<T, float>(x, expected, {.emulation = {seed, landing}, .hops = hops}).all();
    for (std::size_t i = 0; i < natural.size(); ++i) EXPECT_TRUE(shuffled[i] == natural[i]) << i;
  }
}

TEST(AttentionBackward, DoesNotDependOnOrder) {
  expect_same_bits<BFloat16>({1, 150, 140, 4, 2, 64, causal, 1, 0, true}, 2);
  expect_same_bits<Float16>({1, 150, 140, 2, 1, 128, causal, 1, 5.0f}, 1);
  expect_same_bits<BFloat16>({1, 131, 90, 1, 1, 256, some_without_keys}, 1);
  expect_same_bits<BFloat16>({1, 150, 140, 2, 1, 64, full}, 1);
}

// Products of the tiles of which a warp's rows and the columns of a step see each other.
template <int width>
void expect_least_products(const AttentionShape& s, const BackwardResults& y, ops::DqOrder order) {
  const bool any_order = order == ops::DqOrder::any;
  const auto keys =
      kernels::attention_backward_keys_tile(kernels::architecture, width, hop_mask_of(s), any_order);
  constexpr auto queries = kernels::attention_backward_queries_tile(kernels::architecture, width);
  EXPECT_EQ(y.stream.of("attention_backward_keys").mma,
            (any_order ? 5 : 4) * products(tiles_seen(s, keys.columns, keys.warp_rows()), keys.warp_rows(),
                                           keys.columns, width));
  if (any_order) return;
  EXPECT_EQ(y.stream.of("attention_backward_queries").mma,
            3 * products(tiles_seen(s, queries.warp_rows(), queries.columns), queries.warp_rows(),
                         queries.columns, width));
}

template <int width>
void expect_least_products(const AttentionShape& s, ops::DqOrder order = ops::DqOrder::ascending) {
  SCOPED_TRACE(s);
  const AttentionInputs x = inputs_in<BFloat16>(s);
  const BackwardResults y =
      backward_of<BFloat16, float>(x, ExpectedAttention(x), {.padding = 16, .dq_order = order});
  expect_least_products<width>(s, y, order);
  EXPECT_EQ(y.stream.of("attention_backward_keys").bank_conflicts(), 0);
  if (order == ops::DqOrder::any) return;
  EXPECT_EQ(y.stream.of("attention_backward_queries").bank_conflicts(), 0);
}

TEST(AttentionBackward, MultipliesOnlyWhatAWarpSees) {
  expect_least_products<64>({1, 320, 320, 1, 1, 64, gap_of(320, 320)});
  expect_least_products<128>({1, 131, 333, 1, 1, 128, gap_of(131, 333)});
  expect_least_products<256>({1, 40, 321, 1, 1, 256, gap_of(40, 321)});
  expect_least_products<64>({1, 131, 333, 1, 1, 64, gap_of(131, 333)}, ops::DqOrder::any);
  expect_least_products<128>({1, 131, 333, 1, 1, 128, gap_of(131, 333)}, ops::DqOrder::any);
  expect_least_products<64>({2, 131, 77, 2, 1, 64, causal});
  expect_least_products<64>({1, 131, 259, 1, 1, 64, window});
  expect_least_products<128>({1, 131, 90, 1, 1, 128, some_without_keys});
  expect_least_products<64>({2, 131, 77, 1, 1, 64, full});
  expect_least_products<64>({1, 200, 300, 2, 1, 64, inner_rectangle(200, 300)});
  expect_least_products<64>({1, 200, 300, 1, 1, 64, inner_rectangle(200, 300)}, ops::DqOrder::any);
  expect_least_products<128>({1, 200, 300, 1, 1, 128, inner_rectangle(200, 300)});
  expect_least_products<256>({1, 200, 300, 1, 1, 256, inner_rectangle(200, 300)});
}

template <half T, class G, int width>
void expect_economy(const AttentionShape& s, BackwardOptions options = {}) {
  SCOPED_TRACE(s);
  options.padding = 16;
  const AttentionInputs x = inputs_in<T>(s);
  const BackwardResults y = backward_of<T, G>(x, ExpectedAttention(x), options);
  if (options.hops == 1) expect_least_products<width>(s, y, options.dq_order);
  std::vector<simt::Counters> of_tiles = {y.stream.of("attention_backward_keys")};
  if (options.dq_order == ops::DqOrder::ascending) {
    of_tiles.push_back(y.stream.of("attention_backward_queries"));
  }
  for (const simt::Counters& counters : of_tiles) {
    EXPECT_EQ(counters.global_stores.instructions * 512, counters.global_stores.bytes);
  }
  of_tiles.push_back(y.stream.of("attention_delta"));
  for (const simt::Counters& counters : of_tiles) {
    EXPECT_EQ(counters.bank_conflicts(), 0);
    EXPECT_LE(counters.global_loads.sectors * 32, counters.global_loads.bytes);
    EXPECT_EQ(counters.global_stores.sectors * 32, counters.global_stores.bytes);
  }
}

TEST(AttentionBackward, VisitsNoTileInVainAndMovesWholeSectorsWithoutBankConflicts) {
  expect_economy<BFloat16, float, 64>({1, 256, 256, 1, 1, 64, causal});
  expect_economy<Float16, Float16, 64>({1, 256, 384, 1, 1, 64, window});
  expect_economy<BFloat16, BFloat16, 128>({1, 256, 256, 2, 1, 128, causal});
  expect_economy<BFloat16, float, 128>({1, 128, 256, 1, 1, 128, full}, {.hops = 2});
  expect_economy<BFloat16, float, 64>({1, 256, 256, 1, 1, 64, causal}, {.dq_order = ops::DqOrder::any});
  expect_economy<Float16, float, 128>({1, 128, 128, 1, 1, 128, causal}, {.dq_order = ops::DqOrder::any});
  expect_economy<Float16, float, 256>({1, 128, 128, 1, 1, 256, causal});
}

}  // namespace
}  // namespace trilith::test
