// Partitions hold each element once, and initial values depend on names and places in the whole tensor only.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/device/host.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/host.hpp>

namespace trilith {
namespace {

// Every partition of small extents over up to five parts, most of them padded.
template <class Check>
void for_each_partition(Check&& check) {
  for (const Index outer : {1, 2, 3}) {
    for (const Index extent : {1, 2, 5, 6, 12}) {
      for (const Index inner : {1, 3, 4}) {
        for (const int parts : {1, 2, 3, 4, 5}) check(Partition{outer, extent, inner, parts});
      }
    }
  }
}

std::string text(const Partition& p) {
  return "(" + std::to_string(p.outer) + ", " + std::to_string(p.extent) + ", " + std::to_string(p.inner) +
         ") in " + std::to_string(p.parts);
}

TEST(Partition, SharesAreEqualAndTogetherHoldTheWhole) {
  for_each_partition([](const Partition& p) {
    EXPECT_GE(p.share() * p.parts, p.extent) << text(p);
    EXPECT_LT((p.share() - 1) * p.parts, p.extent) << text(p);
    EXPECT_EQ(p.local_size(), p.outer * p.share() * p.inner) << text(p);
    EXPECT_EQ(p.size(), p.outer * p.extent * p.inner) << text(p);
  });
}

TEST(Partition, RunsHoldEachElementExactlyOnce) {
  for_each_partition([](const Partition& p) {
    std::vector<int> times(static_cast<std::size_t>(p.size()), 0);
    for (int part = 0; part < p.parts; ++part) {
      std::vector<int> local_times(static_cast<std::size_t>(p.local_size()), 0);
      p.for_each_run(part, [&](Index global, Index local, Index count) {
        EXPECT_GT(count, 0) << text(p);
        for (Index i = 0; i < count; ++i) {
          ++times.at(static_cast<std::size_t>(global + i));
          ++local_times.at(static_cast<std::size_t>(local + i));
        }
      });
      for (const int t : local_times) EXPECT_LE(t, 1) << text(p);
    }
    EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(p.size()), 1)) << text(p);
  });
}

// The element (o, e, i) of the whole is (o, e − part · share, i) of its part.
TEST(Partition, ElementsKeepTheirPlaceWithinTheirPart) {
  for_each_partition([](const Partition& p) {
    for (int part = 0; part < p.parts; ++part) {
      p.for_each_run(part, [&](Index global, Index local, Index count) {
        for (Index n = 0; n < count; ++n) {
          const Index i = (global + n) % p.inner;
          const Index e = (global + n) / p.inner % p.extent;
          const Index o = (global + n) / (p.inner * p.extent);
          EXPECT_EQ(local + n, (o * p.share() + e - part * p.share()) * p.inner + i) << text(p);
        }
      });
    }
  });
}

TEST(Partition, WholeTensorsAreOneRunOnEveryRank) {
  const Partition whole{.outer = 2, .extent = 3, .inner = 4};
  for (int rank = 0; rank < 3; ++rank) {
    int runs = 0;
    whole.for_each_run(rank, [&](Index global, Index local, Index count) {
      ++runs;
      EXPECT_EQ(global, 0);
      EXPECT_EQ(local, 0);
      EXPECT_EQ(count, 24);
    });
    EXPECT_EQ(runs, 1);
  }
}

TEST(Partition, PartsBehindTheLastElementAreAllPadding) {
  const Partition five_in_four{.extent = 5, .parts = 4};
  EXPECT_EQ(five_in_four.share(), 2);
  five_in_four.for_each_run(3, [](Index, Index, Index) { FAIL() << "rank 3 holds nothing"; });
}

TEST(Partition, NeighbouringRanksHoldCopiesOfAPart) {
  constexpr Partition partition{.extent = 6, .inner = 2, .parts = 3, .copies = 2};
  for (int rank = 0; rank < 6; ++rank) {
    partition.for_each_run(rank, [&](Index global, Index local, Index count) {
      EXPECT_EQ(global, rank / 2 * 4);
      EXPECT_EQ(local, 0);
      EXPECT_EQ(count, 4);
    });
    EXPECT_EQ(partition.first_holder(rank), rank % 2 == 0);
  }
  constexpr Partition whole{.extent = 6, .copies = 4};
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(whole.first_holder(rank), rank == 0);
}

TEST(Parameters, ThatAdjoinAreOneMatrixAndOthersBeginACacheLine) {
  Parameters<Host> parameters(0);
  const Parameter<float>& first = parameters.add({.name = "a", .shape = {5, 3}, .partition = {.extent = 15}});
  const Parameter<float>& second =
      parameters.add({.name = "b", .shape = {2, 3}, .partition = {.extent = 6}, .adjoins = true});
  const Parameter<float>& third = parameters.add({.name = "c", .shape = {1}, .partition = {.extent = 1}});
  EXPECT_EQ(first.offset, 0);
  EXPECT_EQ(second.offset, 15);
  EXPECT_EQ(third.offset, 32);
  EXPECT_EQ(parameters.size(), 48);
  Host::Memory memory;
  parameters.allocate(memory);
  EXPECT_EQ(second.value.data(), first.value.data() + 15);
  EXPECT_EQ(second.gradient.data(), first.gradient.data() + 15);
}

// Attention's (in, 3 · out) weight: a rank holds its columns of the queries, of the keys and of the values,
// side by side, so that its part is an (in, 3 · out / TP) matrix.
TEST(Partition, ColumnsOfAFusedWeightAreSplitWithinEachOfItsParts) {
  constexpr Index in = 5, out = 6, fused = 3;
  constexpr int ranks = 2;
  constexpr Partition partition{.outer = in * fused, .extent = out, .parts = ranks};
  static_assert(partition.local_size() == in * fused * out / ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Index> column_of(fused * out / ranks, -1);
    std::vector<Index> local(static_cast<std::size_t>(partition.local_size()), -1);
    partition.for_each_run(rank, [&](Index global, Index at, Index count) {
      for (Index i = 0; i < count; ++i) local.at(static_cast<std::size_t>(at + i)) = global + i;
    });
    for (Index row = 0; row < in; ++row) {
      for (Index which = 0; which < fused; ++which) {
        for (Index column = 0; column < out / ranks; ++column) {
          const Index here = row * (fused * out / ranks) + which * (out / ranks) + column;
          const Index there = row * (fused * out) + which * out + rank * (out / ranks) + column;
          EXPECT_EQ(local[static_cast<std::size_t>(here)], there);
        }
      }
    }
  }
}

TEST(Parameters, LieOneBehindTheOtherOnCacheLines) {
  Parameters<Host> parameters(0);
  parameters.add({.name = "a", .shape = {5}, .partition = {.extent = 5}});
  parameters.add({.name = "b", .shape = {3, 32}, .partition = {.outer = 3, .extent = 32, .parts = 2}});
  const Parameter<float>& c = parameters.add({.name = "c", .shape = {1}, .partition = {.extent = 1}});
  Host::Memory memory;
  parameters.allocate(memory);

  EXPECT_EQ(parameters.size(), 16 + 48 + 16);
  EXPECT_EQ(c.offset, 64);
  for (const Parameter<float>& p : parameters) {
    EXPECT_EQ(p.offset % 16, 0);
    EXPECT_EQ(p.value.size(), p.spec.partition.local_size());
    EXPECT_EQ(p.value.data(), parameters.values().data() + p.offset);
    EXPECT_EQ(p.gradient.data(), parameters.gradients().data() + p.offset);
  }
}

// One of each kind that a GPT has, over TP ranks.
std::vector<ParameterSpec> specs(int ranks) {
  const auto normal = [](const char* name, Index rows, Index columns, Partition partition) {
    return ParameterSpec{.name = name,
                         .shape = {rows, columns},
                         .partition = partition,
                         .initial = Initial::normal,
                         .deviation = 0.02f};
  };
  return {
      normal("table", 101, 7, {.extent = 101, .inner = 7, .parts = ranks}),
      normal("positions", 33, 7, {.extent = 33, .inner = 7}),
      normal("fused", 24, 180, {.outer = 24 * 3, .extent = 60, .parts = ranks}),
      normal("row", 8400, 9, {.extent = 8400, .inner = 9, .parts = ranks}),  // whole, more than 2¹⁶ elements
      {.name = "scale", .shape = {60}, .partition = {.extent = 60}, .initial = Initial::ones},
      {.name = "bias", .shape = {180}, .partition = {.outer = 3, .extent = 60, .parts = ranks}}};
}

// The whole tensors, in the order of specs(), put together from the parts of all ranks. What no run holds
// must be 0.
std::vector<std::vector<float>> initial_values(int ranks, std::uint64_t seed, int threads = 1,
                                               int first = 0) {
  std::vector<std::vector<float>> whole;
  for (int rank = 0; rank < ranks; ++rank) {
    Host::Memory memory(true);
    Parameters<Host> parameters(rank);
    // `first`: built in another order, as on a stage that holds other layers.
    std::vector<const Parameter<float>*> built(specs(ranks).size());
    for (std::size_t i = 0; i < built.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(first)) % built.size();
      built[which] = &parameters.add(specs(ranks)[which]);
    }
    parameters.allocate(memory);
    parameters.initialize(Host::Stream(threads), seed);
    for (std::size_t which = 0; which < built.size(); ++which) {
      const Parameter<float>& p = *built[which];
      if (rank == 0) whole.emplace_back(static_cast<std::size_t>(p.spec.partition.size()), -1.0f);
      std::vector<bool> held(static_cast<std::size_t>(p.spec.partition.local_size()), false);
      p.spec.partition.for_each_run(rank, [&](Index global, Index local, Index count) {
        for (Index i = 0; i < count; ++i) {
          whole[which][static_cast<std::size_t>(global + i)] = p.value(local + i);
          held[static_cast<std::size_t>(local + i)] = true;
        }
      });
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (held[i]) continue;
        EXPECT_EQ(p.value(i), 0) << p.spec.name << ": padding";
      }
      for (Index i = 0; i < p.gradient.size(); ++i) EXPECT_EQ(p.gradient(i), 0) << p.spec.name;
    }
  }
  return whole;
}

TEST(InitialValues, DoNotDependOnTheNumberOfTensorRanks) {
  const auto one = initial_values(1, 3);
  for (int ranks : {2, 3, 4, 6}) EXPECT_EQ(initial_values(ranks, 3), one) << "TP=" << ranks;
}

TEST(InitialValues, DoNotDependOnTheOrderInWhichLayersAreBuilt) {
  const auto expected = initial_values(2, 3);
  for (int first = 1; first < 6; ++first) EXPECT_EQ(initial_values(2, 3, 1, first), expected);
}

TEST(InitialValues, DoNotDependOnTheNumberOfThreads) {
  EXPECT_EQ(initial_values(1, 3, 3), initial_values(1, 3));
}

TEST(InitialValues, DependOnTheSeedAndTheName) {
  const auto values = initial_values(1, 3);
  EXPECT_NE(initial_values(1, 4)[0], values[0]);
  const std::vector<float>& table = values[0];
  const std::vector<float>& positions = values[1];
  EXPECT_NE(std::vector<float>(table.begin(), table.begin() + 16),
            std::vector<float>(positions.begin(), positions.begin() + 16));
}

TEST(InitialValues, AreNormalOnesOrZerosAsAsked) {
  const auto values = initial_values(1, 3);
  double first = 0, second = 0;
  const double count = static_cast<double>(values[2].size());
  for (const float x : values[2]) {
    first += double{x};
    second += double{x} * double{x};
  }
  // Five standard deviations of the mean and of the variance of normal numbers.
  EXPECT_NEAR(first / count, 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(second / count, 0.0004, 5 * 0.0004 * std::sqrt(2 / count));
  EXPECT_EQ(values[4], std::vector<float>(60, 1.0f));
  EXPECT_EQ(values[5], std::vector<float>(180, 0.0f));
}

}  // namespace
}  // namespace trilith
