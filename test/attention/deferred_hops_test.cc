// Attention over context ranks whose work is done late: hops on a stream of their own, transfers that arrive
// at any time that the streams' waits allow. Whatever is done first, the results' bits are those of the host.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>

#include "test/attention/context.hpp"
#include "test/support/deferred.hpp"
#include "test/support/deferred_world.hpp"

namespace trilith::test {
namespace {

using Machine = Deferred::Machine;
using Order = Machine::Order;

template <class Policy>
std::vector<Tensor> results_in(Order order, unsigned seed, int ranks, const AttentionInputs& x) {
  const auto machine = std::make_shared<Machine>(order, seed, ranks);
  DeferredWorld world(ranks);
  return attend_in<Policy, Deferred>(world, x, Padding::no, [&] { return Deferred::Stream(machine); })
      .results.all();
}

template <class Policy>
class DeferredHops : public testing::Test {};
using Policies = testing::Types<Attention<Ring, Zigzag>, Attention<Ring>, Attention<AllGatherKv, Zigzag>,
                                Attention<Ulysses>, Attention<Hybrid<2>, Zigzag>>;
TYPED_TEST_SUITE(DeferredHops, Policies);

TYPED_TEST(DeferredHops, LeaveTheResultsBitsInAnyOrderThatTheyAllow) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    const AttentionInputs inputs({.batch = 2,
                                  .queries = 48,
                                  .keys = 48,
                                  .heads = 8,
                                  .kv_heads = 4,
                                  .dimension = 8,
                                  .mask = causal,
                                  .sinks = true});
    const std::vector<Tensor> expected = attend_over<TypeParam>(ranks, inputs).results.all();
    const auto expect_bits = [&](Order order, unsigned seed) {
      EXPECT_TRUE(results_in<TypeParam>(order, seed, ranks, inputs) == expected) << "seed " << seed;
    };
    expect_bits(Order::oldest_first, 0);
    expect_bits(Order::youngest_first, 0);
    for (unsigned seed = 1; seed <= 10; ++seed) expect_bits(Order::shuffled, seed);
  }
}

}  // namespace
}  // namespace trilith::test
