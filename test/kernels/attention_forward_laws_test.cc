// What attention's forward kernel does, counted: no product, access or bank conflict to spare. And what it
// refuses.

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/kernels/attention_tile.hpp>
#include <trilith/kernels/soft_cap.hpp>

#include "test/kernels/attention_case.hpp"
#include "test/kernels/attention_forward_case.hpp"

namespace trilith::test {
namespace {

const NamedMask window{"window", mask::sliding_window(70)};
const NamedMask documents{"documents", mask::causal() & mask::documents({0, 3, 100, 101, 320})};

kernels::AttentionTile tile_of(const AttentionShape& s, kernels::HopMask mask) {
  const int width = s.dimension <= 64 ? 64 : s.dimension <= 128 ? 128 : 256;
  return kernels::attention_forward_tile(kernels::architecture, width, mask);
}

// Scores, and weights times values, of the tiles of keys of which one of a warp's queries sees one.
void expect_least_products(const AttentionShape& s, const simt::Counters& counters) {
  const kernels::AttentionTile tile = tile_of(s, hop_mask_of(s));
  const Index rows = tile.rows / tile.warps;
  EXPECT_EQ(counters.mma, 2 * products(tiles_seen(s, rows, tile.columns), rows, tile.columns, tile.width));
  EXPECT_EQ(counters.bank_conflicts(), 0);
}

TEST(AttentionForwardLaws, MultipliesOnlyWhatAWarpSees) {
  const auto expect_least = [](const AttentionShape& s) {
    SCOPED_TRACE(s);
    expect_least_products(s, forward_of<BFloat16>(inputs_in<BFloat16>(s)).counters);
  };
  expect_least({1, 320, 320, 1, 1, 64, gap_of(320, 320)});
  expect_least({1, 131, 333, 1, 1, 128, gap_of(131, 333)});
  expect_least({1, 40, 321, 2, 1, 256, gap_of(40, 321)});
  expect_least({2, 131, 77, 1, 1, 64, causal});
  expect_least({1, 131, 259, 1, 1, 128, window});
  expect_least({1, 1, 1, 1, 1, 64, causal});
  expect_least({2, 131, 77, 1, 1, 64});
  for (const Index dimension : {64, 128, 256}) {
    expect_least({1, 200, 300, 1, 1, dimension, inner_rectangle(200, 300)});
  }
}

void expect_least_work(const AttentionShape& s) {
  SCOPED_TRACE(s);
  const simt::Counters counters = forward_of<BFloat16>(inputs_in<BFloat16>(s), {.sectors = true}).counters;
  expect_least_products(s, counters);

  // out and lse once.
  EXPECT_EQ(counters.global_stores.bytes, s.batch * s.heads * s.queries * (2 * s.dimension + 4));
  EXPECT_EQ(counters.global_stores.sectors * 32, counters.global_stores.bytes);
}

TEST(AttentionForwardLaws, DoesNoMoreThanItsTilesNeed) {
  expect_least_work({1, 128, 256, 1, 1, 64});
  expect_least_work({1, 256, 256, 2, 1, 64, causal});
  expect_least_work({1, 256, 256, 1, 1, 128, causal});
  expect_least_work({1, 128, 320, 1, 1, 256, causal});
  expect_least_work({1, 320, 320, 1, 1, 64, window});
  expect_least_work({1, 320, 320, 1, 1, 128, documents});
}

// Of a mask that hides nothing, every load is of whole sectors, and each byte of a tile is loaded once by a
// block.
void expect_least_loads(const AttentionShape& s, kernels::HopMask mask) {
  SCOPED_TRACE(testing::Message() << s);
  const bool intervals = mask == kernels::HopMask::intervals;
  const simt::Counters counters =
      forward_of<BFloat16>(inputs_in<BFloat16>(s), {.intervals = intervals, .sectors = true}).counters;
  const kernels::AttentionTile tile = tile_of(s, mask);
  const Index blocks = ceil_divide(s.queries, tile.rows) * s.heads * s.batch;
  const Index queries = s.queries * s.heads * s.batch;
  // By each warp those of the block, and its own.
  const Index ranges = intervals ? 2 * 4 * queries * (tile.warps + 1) : 0;
  EXPECT_EQ(counters.global_loads.bytes,
            2 * queries * s.dimension + blocks * 2 * 2 * s.keys * s.dimension + ranges);
  EXPECT_EQ(counters.global_loads.sectors * 32, counters.global_loads.bytes);
}

TEST(AttentionForwardLaws, LoadsEachTileOnceByWholeSectors) {
  for (const auto mask : {kernels::HopMask::intervals, kernels::HopMask::rectangle}) {
    expect_least_loads({1, 128, 192, 2, 1, 64}, mask);
    expect_least_loads({1, 256, 128, 1, 1, 128}, mask);
    expect_least_loads({1, 128, 128, 1, 1, 256}, mask);
    expect_least_loads({1, 128, 128, 1, 1, 80}, mask);
  }
}

TEST(AttentionForwardLaws, LoadsNoKeysForABlockThatSeesNone) {
  const NamedMask later{"the later queries", mask::documents({0, 128, 256}, {0, 0, 96})};
  const AttentionInputs x = inputs_in<BFloat16>({1, 256, 96, 1, 1, 64, later});
  const simt::Counters counters = forward_of<BFloat16>(x).counters;
  EXPECT_EQ(counters.global_loads.bytes, 2 * 256 * 64 + 2 * 2 * 96 * 64);
}

TEST(AttentionForwardLaws, CarriesByWholeSectors) {
  const AttentionInputs x = inputs_in<BFloat16>({1, 128, 384, 1, 1, 64});
  const simt::Counters counters = forward_of<BFloat16>(x, {.hops = 2, .sectors = true}).counters;
  EXPECT_EQ(counters.bank_conflicts(), 0);
  EXPECT_EQ(counters.global_stores.bytes, 128 * (4 * 64 + 8) + 128 * (2 * 64 + 4));
  EXPECT_EQ(counters.global_stores.sectors * 32, counters.global_stores.bytes);
  // The four lanes that have a query load its maximum together.
  EXPECT_EQ(counters.global_loads.sectors * 32, counters.global_loads.bytes - 3 * 4 * 128);
}

using kernels::HopMask;

TEST(AttentionForwardTile, FitsEachArchitecture) {
  using kernels::attention_forward_tile;
  using kernels::AttentionTile;
  for (const int architecture : {80, 86, 89, 90, 100, 120}) {
    const int all = kernels::shared_kib_of_multiprocessor(architecture) * 1024;
    for (const int width : {64, 128, 256}) {
      for (const HopMask mask : {HopMask::intervals, HopMask::rectangle}) {
        const AttentionTile tile = attention_forward_tile(architecture, width, mask);
        const int blocks = width < 256 ? 2 : 1;
        EXPECT_LE(blocks * (tile.shared_bytes() + 1024), all) << architecture << ", " << width;
        EXPECT_GE(tile.stages, 2) << architecture << ", " << width;
      }
    }
  }
}

TEST(AttentionForwardTile, SuitsArchitectureWidthAndMask) {
  using kernels::attention_forward_tile;
  const auto expect = [](int architecture, kernels::AttentionTile tile) {
    EXPECT_EQ(attention_forward_tile(architecture, tile.width, tile.mask), tile)
        << architecture << ", " << tile.width;
  };
  const auto cut = HopMask::intervals;
  const auto whole = HopMask::rectangle;
  expect(80, {.mask = cut, .rows = 128, .columns = 96, .width = 64, .warps = 4, .stages = 4});
  expect(80, {.mask = whole, .rows = 128, .columns = 128, .width = 64, .warps = 4, .stages = 4});
  expect(80, {.mask = cut, .rows = 128, .columns = 64, .width = 256, .warps = 8, .stages = 3});
  expect(90, {.mask = whole, .rows = 128, .columns = 128, .width = 64, .warps = 4, .stages = 4});
  expect(90, {.mask = whole, .rows = 128, .columns = 64, .width = 128, .warps = 4, .stages = 4});
  expect(89, {.mask = cut, .rows = 64, .columns = 64, .width = 128, .warps = 4, .stages = 2});
  expect(89, {.mask = whole, .rows = 128, .columns = 32, .width = 128, .warps = 4, .stages = 2});
  expect(89, {.mask = cut, .rows = 64, .columns = 64, .width = 256, .warps = 4, .stages = 2});
  expect(89, {.mask = whole, .rows = 128, .columns = 32, .width = 256, .warps = 8, .stages = 2});
}

// y(i) = tanh(x(i))
struct TanhOf {
  static constexpr const char* name = "tanh";
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<const float> x;
    simt::Global<float> y;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Index i = Index{lane.block().x} * threads + lane.thread();
    if (i < p.x.size) lane.store(p.y, i, kernels::tanh(lane, lane.load(p.x, i)));
  }
};

TEST(SoftCap, IsExactToAMillionth) {
  Buffer<float> x(8192), y(8192);
  for (Index i = 0; i < 8192; ++i) {
    x[i] = static_cast<float>(std::exp((static_cast<double>(i / 2) / 4096 - 0.75) * 16)) *
           (i % 2 == 0 ? 1.0f : -1.0f);
  }
  simt::Emulator().launch(TanhOf{}, {.x = 64}, {x.view(), y.view()});
  for (Index i = 0; i < 8192; ++i) {
    const double expected = std::tanh(double{x[i]});
    EXPECT_NEAR(y[i], expected, 1e-6 * std::abs(expected)) << x[i];
  }
}

// The first sentence of what is refused, or "".
std::string refused(Index dimension, Index padding, float scale, Index keys = 2,
                    std::optional<ops::SeenRectangle> rectangle = {}) {
  Buffer<BFloat16> x(2 * (dimension + padding) + 8);
  Buffer<std::int32_t> first(2), last(2);
  Buffer<float> lse(2);
  const View<BFloat16, 4> rows{x.data(), {1, 2, 1, dimension}, {0, dimension + padding, dimension, 1}};
  const View<BFloat16, 4> kv{x.data(), {1, keys, 1, dimension}, {0, dimension + padding, dimension, 1}};
  const ops::KeyRanges ranges{Vector<const std::int32_t>(first.data(), {2}),
                              Vector<const std::int32_t>(last.data(), {2}), rectangle};
  try {
    ops::attention(Emulated::Stream(), rows, kv, kv, {.scale = scale}, ranges, rows,
                   View<float, 3>{lse.data(), {1, 1, 2}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(AttentionForward, RefusesWhatItCannotTake) {
  EXPECT_EQ(refused(64, 0, 0.125f), "");
  EXPECT_EQ(refused(20, 4, 1),
            "attention with heads of dimension 20; give 256 at most, and in 16 bits a multiple of 8");
  EXPECT_EQ(refused(264, 0, 1),
            "attention with heads of dimension 264; give 256 at most, and in 16 bits a multiple of 8");
  EXPECT_EQ(refused(64, 4, 1),
            "attention: a row does not begin at a multiple of 16 bytes; give strides that are multiples of "
            "8, and aligned memory");
  EXPECT_EQ(refused(64, 0, 1, Index{1} << 31),
            "attention: a sequence has more than 2147479551 rows; split it over context ranks");
  EXPECT_EQ(refused(64, 0, 1, 2, ops::SeenRectangle{0, 2, 0, 3}),
            "attention: queries [0, 2) of 2 see keys [0, 3) of 2; give the rectangle that "
            "ops::seen_rectangle() finds, or none");
  EXPECT_EQ(refused(64, 0, 1, 2, ops::SeenRectangle{-1, 2, 0, 2}),
            "attention: queries [-1, 2) of 2 see keys [0, 2) of 2; give the rectangle that "
            "ops::seen_rectangle() finds, or none");
  const std::string remedy = "; give a positive, finite scale, such as 1 / sqrt(dimension)";
  EXPECT_EQ(refused(64, 0, 0), "attention scales its scores by 0.000000" + remedy);
  EXPECT_EQ(refused(64, 0, std::numeric_limits<float>::infinity()),
            "attention scales its scores by inf" + remedy);
}

}  // namespace
}  // namespace trilith::test
