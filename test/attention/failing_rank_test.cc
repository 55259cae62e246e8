// A rank that throws at any of its communications, forward or backward: all ranks end within seconds, with
// the error of the rank that failed, however many hops are in flight.
//
// This small file also runs under AddressSanitizer and ThreadSanitizer.
#include <chrono>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>

#include "test/attention/context.hpp"
#include "test/support/files.hpp"
#include "test/support/observed_world.hpp"

namespace trilith::test {
namespace {

constexpr int ranks = 4;

template <class Policy>
class FailingContextRank : public testing::Test {};
using Policies = testing::Types<Attention<Ring, Zigzag>, Attention<Ring>, Attention<Ulysses>,
                                Attention<AllGatherKv, Zigzag>, Attention<Hybrid<2>, Zigzag>>;
TYPED_TEST_SUITE(FailingContextRank, Policies);

TYPED_TEST(FailingContextRank, StopsAllOthersWhereverItFails) {
  const AttentionInputs inputs({1, 32, 32, 4, 4, 8, causal});
  for (const int failing : {0, 2, 3}) {
    std::int64_t operations = 0;
    {
      FusedWorld world(ranks);
      attend_in<TypeParam>(world, inputs);
      operations = world.rank(failing).observed.operations;
    }
    EXPECT_GE(operations, 3);
    for (std::int64_t at = 0; at < operations; ++at) {
      SCOPED_TRACE("rank " + std::to_string(failing) + ", operation " + std::to_string(at));
      FusedWorld world(ranks);
      world.rank(failing).observed.observer.blows_at = at;
      const auto start = std::chrono::steady_clock::now();
      const std::string said = error_of([&] { attend_in<TypeParam>(world, inputs); });
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
      EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("rank " + std::to_string(failing)),
                                       testing::HasSubstr("a fuse blew")));
    }
  }
}

}  // namespace
}  // namespace trilith::test
