// The emulated device: kernels that a stream runs, and what it counts of them.
#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/device/emulated.hpp>

#include "test/simt/buffer.hpp"
#include "test/simt/overtaken.hpp"

namespace trilith {
namespace {

// Thread i of the grid writes in which turn it came.
struct Turns {
  static constexpr const char* name = "turns";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<float> turn;
    simt::Global<float> count;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const float mine = lane.load(p.count, 0);
    lane.store(p.count, 0, mine + 1);
    lane.store(p.turn, Index{lane.block().x} * threads + lane.thread(), mine);
  }
};

std::vector<float> turns(const Emulated::Stream& stream) {
  constexpr Index count = 64;
  std::vector<float> order(count);
  float next = 0;
  stream.launch(Turns{}, {.x = 2}, {.turn = {order.data(), count}, .count = {&next, 1}});
  return order;
}

TEST(Emulated, SumsWhatItsLaunchesDoUntilToldToForget) {
  const Emulated::Stream stream;
  turns(stream);
  const simt::Counters once = stream.counters();
  EXPECT_EQ(once.global_loads.bytes, 64 * 4);
  EXPECT_EQ(once.global_stores.bytes, 2 * 64 * 4);
  turns(stream);
  simt::Counters twice = once;
  twice += once;
  EXPECT_EQ(stream.counters(), twice);
  EXPECT_EQ(twice.global_stores.instructions, 2 * once.global_stores.instructions);
  stream.clear_counters();
  EXPECT_EQ(stream.counters(), simt::Counters{});
}

TEST(Emulated, GivesEachRankAnOrderOfItsOwn) {
  const auto order_of = [](int rank) { return turns(Emulated::Stream(Place{.rank = rank})); };
  EXPECT_EQ(order_of(0), turns(Emulated::Stream()));
  EXPECT_NE(order_of(1), order_of(0));
  EXPECT_NE(order_of(2), order_of(1));
  EXPECT_EQ(order_of(2), order_of(2));
}

TEST(Emulated, LandsCopiesOfEachRankBothWays) {
  for (const int rank : {0, 1, 2}) {
    test::Buffer<float> x(32 * 128, 1.0f);
    Emulated::Stream(Place{.rank = rank}).launch(test::Overtaken{}, {.x = 32}, {x.view()});
    std::set<float> seen;
    for (Index block = 0; block < 32; ++block) seen.insert(x[128 * block]);
    EXPECT_EQ(seen, (std::set<float>{1, 2})) << "rank " << rank;
  }
}

TEST(Emulated, ComputesInEveryPrecisionOnMemoryOfTheHost) {
  static_assert(Emulated::computes_with<float> && Emulated::computes_with<BFloat16> &&
                Emulated::computes_with<Float16> && !Emulated::computes_with<double>);
  Emulated::memory memory(Place{.poison = true});
  const Emulated::allocation allocation = memory.allocate(64);
  EXPECT_TRUE(std::isnan(*reinterpret_cast<const float*>(allocation.data())));
  EXPECT_EQ(Emulated::Stream(Place{.threads = 3}).host().threads(), 3);
}

}  // namespace
}  // namespace trilith
