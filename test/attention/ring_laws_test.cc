// Law 7 and what else is promised of a ring: hops and bytes, memory that does not grow with the ranks, even
// work, nothing computed that a mask empties, transfers beside the computation, and an error that does not
// grow with the hops.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>
#include <trilith/comm/ledger.hpp>
#include <trilith/core/rounding.hpp>

#include "test/attention/context.hpp"
#include "test/support/observed_world.hpp"

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

template <class Policy>
void expect_hops_and_bytes() {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const AttentionInputs inputs = inputs_for(ranks);
    const ContextRun run = attend_over<Policy>(ranks, inputs);
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
      EXPECT_EQ(run.both[r].entries().size(), ranks > 1 ? 2u : 0u) << "nothing but these messages";
    }
  }
}

TEST(RingLaws, KeysAndValuesTakeOneHopLessThanThereAreRanks) {
  expect_hops_and_bytes<Attention<Ring>>();
  expect_hops_and_bytes<Attention<Ring, Zigzag>>();
  expect_hops_and_bytes<Attention<Ring, Striped>>();
}

// What a rank sends instead: an exchange of (P − 1) / P of its queries, keys and values, and one of its
// results, each with its lse; or all keys and values of others, gathered.
TEST(OtherPolicies, SendWhatTheyPromise) {
  for (const int ranks : {2, 3, 4}) {
    const Index length = Index{8} * ranks;
    const AttentionInputs inputs({2, length, length, 12, 12, 24, causal});
    const std::int64_t block = 2 * key_bytes(inputs.shape, ranks);
    const ContextRun ulysses = attend_over<Attention<Ulysses>>(ranks, inputs);
    const ContextRun gathered = attend_over<Attention<AllGatherKv, Zigzag>>(ranks, inputs);
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
      const std::int64_t lse = block / 2 / inputs.shape.dimension;
      const auto sent = ulysses.forward[r].total("context", Collective::send);
      EXPECT_EQ(sent.calls, 2 * (ranks - 1));
      EXPECT_EQ(sent.bytes, (2 * block + lse) * (ranks - 1) / ranks);
      const auto all = gathered.forward[r].total("context", Collective::all_gather);
      EXPECT_EQ(all.calls, 1);
      EXPECT_EQ(all.bytes_on_wire, static_cast<double>((ranks - 1) * block));
    }
  }
}

// What a rank's queries see: two numbers of 32 bits for each query and hop, in whole pages.
TEST(RingLaws, KeyRangesTakeEightBytesForEachPosition) {
  for (const int ranks : {1, 2, 4, 8}) {
    const Index length = 1024 * ranks;
    const ContextRun run = attend_over<Attention<Ring>>(
        ranks, AttentionInputs({1, length, length, 1, 1, 8, {"window", mask::sliding_window(2)}}));
    for (const std::size_t bytes : run.range_bytes) EXPECT_EQ(bytes, static_cast<std::size_t>(8 * length));
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
  // Three blocks of keys and values and three of their gradients; of each query the carry, and D. In pages.
  const AttentionShape& s = inputs_for(2).shape;
  const Index queries = s.batch * s.heads * s.queries / 2;
  const Index floats = 6 * 2 * key_bytes(s, 2) / 4 + queries * (s.dimension + 3);
  EXPECT_EQ(of_two, round_up<std::size_t>(static_cast<std::size_t>(4 * floats), 4096));
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

// NaN in the keys and values of the last rank, which under a causal mask only its own queries see, reaches no
// other query; NaN in the queries of the first rank reaches no key of another rank. A block that was masked
// instead of skipped would hand it on, as 0 · NaN.
template <class Policy>
void expect_blocks_to_be_skipped() {
  constexpr int ranks = 4;
  constexpr Index length = 32, part = length / ranks;
  const auto spoil = [](Tensor& x, Index first) {
    for (Index row = first; row < first + part; ++row) {
      for (Index c = 0; c < x.columns(); ++c) x(row, c) = std::nanf("");
    }
  };
  const auto expect_finite = [](const Tensor& x, Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      for (Index c = 0; c < x.columns(); ++c) ASSERT_TRUE(std::isfinite(x(row, c))) << row << ", " << c;
    }
  };
  AttentionInputs late({1, length, length, 2, 2, 8, causal});
  spoil(late.k, length - part);
  spoil(late.v, length - part);
  const AttentionResults of_late = attend_over<Policy>(ranks, late).results;
  expect_finite(of_late.out, 0, length - part);
  expect_finite(of_late.dq, 0, length - part);

  AttentionInputs early({1, length, length, 2, 2, 8, causal});
  spoil(early.q, 0);
  spoil(early.d_out, 0);
  const AttentionResults of_early = attend_over<Policy>(ranks, early).results;
  expect_finite(of_early.out, part, length);
  expect_finite(of_early.dq, part, length);
  expect_finite(of_early.dk, part, length);
  expect_finite(of_early.dv, part, length);
}

TEST(RingLaws, BlocksThatAMaskEmptiesAreNotComputed) {
  expect_blocks_to_be_skipped<Attention<Ring>>();
  expect_blocks_to_be_skipped<Attention<AllGatherKv>>();
}

// Looks at what a rank computes when an operation begins, and again when it is waited for.
struct Witness {
  Vector<const float> computed = {};
  std::map<std::int64_t, std::vector<float>> begun = {};
  int waits_after_work = 0;

  std::vector<float> now() const { return {computed.data(), computed.data() + computed.size()}; }
  void operation(std::int64_t number) { begun[number] = now(); }
  void wait(std::int64_t number) {
    const std::vector<float> before = std::exchange(begun[number], {}), after = now();
    waits_after_work += std::memcmp(before.data(), after.data(), after.size() * sizeof(float)) != 0 ? 1 : 0;
  }
};

// Between the begin of a transfer and the wait for its end a rank computes with the block that it has: its
// carry changes forward, the gradient of its queries backward.
TEST(RingLaws, BlocksAndGradientsTravelWhileTheRanksCompute) {
  for (const int ranks : {2, 3, 5}) {
    const Index length = Index{8} * ranks;
    ObservedWorld<Witness> world(ranks);
    world.run([&](ObservedWorld<Witness>::rank_type& rank) {
      const Host::Stream stream;
      Host::Memory memory(true);
      auto group = rank.group("context", ranks_up_to(ranks));
      const ContextAttention<Attention<Ring, Zigzag>, Host, ObservedWorld<Witness>::communicator> attention(
          {.sequence = length, .heads = 1, .kv_heads = 1, .dimension = 8}, mask::causal(), group, memory,
          stream);
      const auto [allocation, room] = allocate_planned<Host>(memory, [&](Arena& arena) {
        return std::pair(attention.saved(arena, 1), attention.scratch(arena, 1));
      });
      Tensor q = random_tensor({8, 8}, 1), k = random_tensor({8, 8}, 2), v = random_tensor({8, 8}, 3);
      Tensor out({8, 8}), lse({1, 8}), dq({8, 8}), dk({8, 8}), dv({8, 8});
      const auto heads = [](Tensor& x) { return heads_of(x, 1, 8); };
      const View<float, 3> lse_view(&lse(0, 0), {1, 1, 8});

      Witness& witness = rank.observed.observer;
      witness.computed = flat(room.second.core.carry.sum);
      attention.forward(stream, {}, {heads(q), heads(k), heads(v)}, heads(out), lse_view, room.first,
                        room.second);
      EXPECT_EQ(rank.observed.operations, ranks - 1);
      EXPECT_EQ(witness.waits_after_work, ranks - 1);

      witness.computed = Vector<const float>(&dq(0, 0), {64});
      attention.backward(stream, {}, {heads(q), heads(k), heads(v)}, heads(out), lse_view, heads(q),
                         {heads(dq), heads(dk), heads(dv)}, room.first, room.second);
      EXPECT_EQ(rank.observed.operations, 3 * (ranks - 1));
      EXPECT_EQ(witness.waits_after_work, 3 * (ranks - 1));
    });
  }
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
