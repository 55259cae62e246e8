// What the emulator counts, against figures worked out by hand.

#include <cstdint>
#include <numeric>

#include <gtest/gtest.h>

#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

using simt::Array;
using simt::Counters;
using simt::GlobalTraffic;
using simt::Pack;
using simt::SharedTraffic;
using simt::Width;

struct Arguments {
  simt::Global<float> x;  // (4096)
  int stride;
};

template <class Body>
struct OneWarpOf {
  static constexpr const char* name = "counted";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 16384;
  using Params = Arguments;

  template <simt::lane Lane>
  void operator()(Lane& lane, const Params& p) const {
    Body{}(lane, p);
  }
};

template <class Body>
Counters count(const Body&, int stride = 0) {
  Buffer<float> x(4096, 1.0f);
  Counters first;
  for (const std::uint64_t seed : {0, 1, 2}) {
    simt::Emulator emulator({.seed = seed});
    const Counters counters = emulator.launch(OneWarpOf<Body>{}, {}, {x.view(), stride});
    if (seed == 0) first = counters;
    EXPECT_EQ(counters, first) << "counts must not depend on the order of lanes";
  }
  return first;
}

// Fills 4096 floats of shared memory, for loads to come.
auto filled(auto& lane) {
  const auto s = lane.shared(Array<float, 4096>{});
  for (int i = lane.index() * 4; i < 4096; i += 128) lane.store(s, i, Pack<float, 4>{});
  lane.barrier();
  return s;
}

TEST(Counters, GlobalLoadsTouchTheSectorsOfTheirStride) {
  const auto body = [](auto& lane, auto& p) { lane.load(p.x, lane.index() * p.stride); };
  const auto expect = [&](int stride, Index sectors) {
    const GlobalTraffic expected{.instructions = 1, .bytes = 128, .sectors = sectors};
    EXPECT_EQ(count(body, stride).global_loads, expected) << "stride " << stride;
  };
  expect(0, 1);
  expect(1, 4);
  expect(2, 8);
  expect(4, 16);
  expect(8, 32);
  expect(100, 32);
}

TEST(Counters, GlobalVectors) {
  const Counters counters = count([](auto& lane, auto& p) {
    lane.store(p.x, 4 * lane.index(), lane.load(p.x, 4 * lane.index(), Width<4>{}));
  });
  const GlobalTraffic expected{.instructions = 1, .bytes = 512, .sectors = 16};
  EXPECT_EQ(counters.global_loads, expected);
  EXPECT_EQ(counters.global_stores, expected);
  EXPECT_EQ(counters.global_atomics, GlobalTraffic{});
}

TEST(Counters, AtomicsAreCountedApart) {
  const Counters counters = count([](auto& lane, auto& p) { lane.atomic_add(p.x, 0, 1.0f); });
  EXPECT_EQ(counters.global_atomics, (GlobalTraffic{.instructions = 1, .bytes = 128, .sectors = 1}));
  EXPECT_EQ(counters.global_stores, GlobalTraffic{});
}

TEST(Counters, LanesThatSkipALineTakePartInTheNext) {
  const Counters counters = count([](auto& lane, auto& p) {
    if (lane.index() >= 8) lane.load(p.x, lane.index());
    for (int i = 0; i < 3; ++i) lane.load(p.x, 32 * i + lane.index());
  });
  // 24 lanes from 32 bytes on, then all of them three times.
  EXPECT_EQ(counters.global_loads,
            (GlobalTraffic{.instructions = 4, .bytes = 96 + 3 * 128, .sectors = 3 + 3 * 4}));
}

TEST(Counters, TwoAccessesOnOneLineAreTwo) {
  const Counters counters =
      count([](auto& lane, auto& p) { lane.load(p.x, lane.index()), lane.load(p.x, 32 + lane.index()); });
  EXPECT_EQ(counters.global_loads, (GlobalTraffic{.instructions = 2, .bytes = 256, .sectors = 8}));
}

// Lanes at a stride meet gcd(stride, 32) to a bank.
TEST(Counters, BankConflictsOfAStride) {
  for (const int stride : {0, 1, 2, 3, 4, 8, 16, 31, 32, 33, 64}) {
    const Counters counters =
        count([](auto& lane, auto& p) { lane.load(filled(lane), lane.index() * p.stride); }, stride);
    const Index ways = stride == 0 ? 1 : std::gcd(stride, 32);
    EXPECT_EQ(counters.shared_loads,
              (SharedTraffic{.instructions = 1, .wavefronts = ways, .conflicts = ways - 1}))
        << "stride " << stride;
  }
}

TEST(Counters, VectorsOfSharedMemoryGoByQuartersOfAWarp) {
  const auto body = [](auto& lane, auto& p) { lane.load(filled(lane), lane.index() * p.stride, Width<4>{}); };
  EXPECT_EQ(count(body, 4).shared_loads, (SharedTraffic{.instructions = 1, .wavefronts = 4, .conflicts = 0}));
  EXPECT_EQ(count(body, 8).shared_loads, (SharedTraffic{.instructions = 1, .wavefronts = 8, .conflicts = 4}));
  EXPECT_EQ(count(body, 32).shared_loads,
            (SharedTraffic{.instructions = 1, .wavefronts = 32, .conflicts = 28}));
}

TEST(Counters, HalvesOfAWordDoNotConflict) {
  const Counters counters = count([](auto& lane, auto&) {
    const auto s = lane.shared(Array<BFloat16, 64>{});
    lane.store(s, lane.index(), BFloat16(1.0f));
  });
  EXPECT_EQ(counters.shared_stores, (SharedTraffic{.instructions = 1, .wavefronts = 1, .conflicts = 0}));
}

// 8 rows of a matrix, at a pitch of `stride` elements.
TEST(Counters, LdmatrixConflictsWhereRowsShareBanks) {
  const auto body = [](auto& lane, auto& p) {
    const auto s = lane.shared(Array<BFloat16, 8192>{});
    for (int i = lane.index() * 8; i < 8192; i += 256) lane.store(s, i, Pack<BFloat16, 8>{});
    lane.barrier();
    lane.ldmatrix(s, lane.index() * p.stride, simt::Matrices<4>{});
  };
  EXPECT_EQ(count(body, 8).shared_loads, (SharedTraffic{.instructions = 1, .wavefronts = 4, .conflicts = 0}));
  EXPECT_EQ(count(body, 64).shared_loads,
            (SharedTraffic{.instructions = 1, .wavefronts = 32, .conflicts = 28}));
  EXPECT_EQ(count(body, 72).shared_loads,
            (SharedTraffic{.instructions = 1, .wavefronts = 4, .conflicts = 0}));
  EXPECT_EQ(count(body, 64).ldmatrix, 1);
}

TEST(Counters, CopiesLoadAndStore) {
  const Counters counters = count([](auto& lane, auto& p) {
    const auto s = lane.shared(Array<float, 128>{});
    lane.copy_async(s, 4 * lane.index(), p.x, 4 * lane.index());
  });
  EXPECT_EQ(counters.global_loads, (GlobalTraffic{.instructions = 1, .bytes = 512, .sectors = 16}));
  EXPECT_EQ(counters.shared_stores, (SharedTraffic{.instructions = 1, .wavefronts = 4, .conflicts = 0}));
}

TEST(Counters, MmaOncePerWarp) {
  const Counters counters = count([](auto& lane, auto&) {
    simt::Accumulator d{};
    for (int i = 0; i < 5; ++i) lane.mma(d, simt::FragmentA<Float16>{}, simt::FragmentB<Float16>{});
  });
  EXPECT_EQ(counters.mma, 5);
}

}  // namespace
}  // namespace trilith::test
