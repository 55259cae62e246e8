// Law 7 and what else is promised of a ring: hops and bytes, memory that does not grow with the ranks, even
// work, and an error that does not grow with the hops.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>
#include <trilith/comm/ledger.hpp>

#include "test/attention/context.hpp"

namespace trilith::test {
namespace {

// 16 rows on each rank.
AttentionInputs inputs_for(int ranks, const NamedMask& mask = causal) {
  const Index length = Index{16} * ranks;
  return AttentionInputs({2, length, length, 6, 2, 24, mask});
}

// Bytes of the keys, or of the values, of one rank.
std::int64_t key_bytes(const AttentionShape& s, int ranks) {
  return s.batch * s.keys / ranks * s.kv_heads * s.dimension * 4;
}

TEST(RingLaws, KeysAndValuesTakeOneHopLessThanThereAreRanks) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const AttentionInputs inputs = inputs_for(ranks);
    const ContextRun run = attend_over<Attention<Ring, Zigzag>>(ranks, inputs);
    const std::int64_t block = 2 * key_bytes(inputs.shape, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const auto sent = run.forward[r].total("context", Collective::send);
      EXPECT_EQ(sent.calls, ranks - 1);
      EXPECT_EQ(sent.bytes, (ranks - 1) * block);
      EXPECT_EQ(run.forward[r].total("context", Collective::receive).bytes, (ranks - 1) * block);
      // Backward: as many hops of keys and values, and as many of their gradients, in float32 too.
      const auto all = run.both[r].total("context", Collective::send);
      EXPECT_EQ(all.calls - sent.calls, 2 * (ranks - 1));
      EXPECT_EQ(all.bytes - sent.bytes, 2 * (ranks - 1) * block);
    }
  }
}

TEST(RingLaws, MemoryDoesNotGrowWithTheRanksAtAFixedLengthPerRank) {
  const auto bytes = [](int ranks) {
    const ContextRun run = attend_over<Attention<Ring, Zigzag>>(ranks, inputs_for(ranks));
    EXPECT_EQ(*std::min_element(run.bytes.begin(), run.bytes.end()),
              *std::max_element(run.bytes.begin(), run.bytes.end()));
    return run.bytes.front();
  };
  const std::size_t of_two = bytes(2);
  EXPECT_EQ(bytes(3), of_two);
  EXPECT_EQ(bytes(8), of_two);

  const auto gathered = [](int ranks) {
    return attend_over<Attention<AllGatherKv, Zigzag>>(ranks, inputs_for(ranks)).bytes.front();
  };
  EXPECT_GT(gathered(8), gathered(2));  // what the ring saves
}

Index work_of(const std::vector<Index>& hops) {
  return std::accumulate(hops.begin(), hops.end(), Index{0});
}

// Rank r holds parts r and 2P − 1 − r of n rows: 2n² + n scores at home, 2n² at each other rank's keys.
TEST(RingLaws, AZigzagGivesEveryRankAndHopTheSameWork) {
  for (const int ranks : {2, 3, 8}) {
    const AttentionInputs inputs = inputs_for(ranks);
    const ContextRun run = attend_over<Attention<Ring, Zigzag>>(ranks, inputs);
    const Index n = 8;
    for (const std::vector<Index>& hops : run.scores) {
      ASSERT_EQ(hops.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(hops[0], 2 * n * n + n);
      for (std::size_t hop = 1; hop < hops.size(); ++hop) EXPECT_EQ(hops[hop], 2 * n * n);
      EXPECT_EQ(work_of(hops), inputs.shape.keys * (inputs.shape.keys + 1) / (2 * ranks));
    }
  }
}

// Beside it: cut at its ends, a causal sequence gives the last of 8 ranks 14 times the first one's work.
TEST(RingLaws, AContiguousSplitDoesNot) {
  const ContextRun run = attend_over<Attention<Ring>>(8, inputs_for(8));
  EXPECT_GT(work_of(run.scores.back()), 14 * work_of(run.scores.front()));
  EXPECT_EQ(run.scores.front(), (std::vector<Index>{136, 0, 0, 0, 0, 0, 0, 0}));
}

// The carry is float32 and normalised once, so that hops add next to nothing to the error.
TEST(RingLaws, TheErrorDoesNotGrowWithTheHops) {
  double of_one = 0;
  double of_eight = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const AttentionInputs inputs({1, 256, 256, 2, 2, 32, causal}, seed);
    const ExpectedAttention expected(inputs);
    const auto error = [&](int ranks) {
      const AttentionResults y = attend_over<Attention<Ring, Zigzag>>(ranks, inputs).results;
      return norm_error(y.out, expected.out) + norm_error(y.dq, expected.dq) + norm_error(y.dk, expected.dk) +
             norm_error(y.dv, expected.dv);
    };
    of_one += error(1);
    of_eight += error(8);
  }
  EXPECT_LE(of_eight, 1.2 * of_one);
}

}  // namespace
}  // namespace trilith::test
