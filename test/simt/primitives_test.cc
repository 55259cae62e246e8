// Each primitive on the emulator against its definition, in several orders of lanes and with both landings of
// copies.

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/primitive_kernels.hpp"

namespace trilith::test {
namespace {

template <class T>
simt::Global<T> view(std::vector<T>& values) {
  return {values.data(), static_cast<Index>(values.size())};
}

// Every order and landing that the tests run.
std::vector<simt::Emulation> emulations() {
  std::vector<simt::Emulation> all;
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    all.push_back({.seed = seed, .landing = simt::Landing::at_once});
    all.push_back({.seed = seed, .landing = simt::Landing::late});
  }
  return all;
}

class Primitives : public testing::TestWithParam<simt::Emulation> {
 protected:
  simt::Emulator emulator_{GetParam()};
  Philox random_{7, 0};
};

std::string name_of(const testing::TestParamInfo<simt::Emulation>& test) {
  return "seed" + std::to_string(test.param.seed) +
         (test.param.landing == simt::Landing::late ? "late" : "at_once");
}

INSTANTIATE_TEST_SUITE_P(Orders, Primitives, testing::ValuesIn(emulations()), name_of);

TEST_P(Primitives, IdsNameEveryThreadOfEveryBlock) {
  std::vector<std::int32_t> out(3 * 2 * 2 * 64 * 6, -1);
  emulator_.launch(Ids{}, {.x = 3, .y = 2, .z = 2}, {view(out)});
  std::vector<std::int32_t> expected;
  for (int z = 0; z < 2; ++z) {
    for (int y = 0; y < 2; ++y) {
      for (int x = 0; x < 3; ++x) {
        for (int t = 0; t < 64; ++t) expected.insert(expected.end(), {t, t % 32, t / 32, x, y, z});
      }
    }
  }
  EXPECT_EQ(out, expected);
}

TEST_P(Primitives, ShufflesTakeFromTheLaneTheyName) {
  std::vector<float> in(32);
  std::iota(in.begin(), in.end(), 100.0f);
  std::vector<std::int32_t> by(32);
  for (int i = 0; i < 32; ++i) by[i] = static_cast<int>(random_.block(i)[0] % 32);
  for (const int distance : {0, 1, 5, 16, 31}) {
    std::vector<float> out(4 * 32);
    emulator_.launch(Shuffles{}, {}, {{in.data(), 32}, view(by), view(out), distance});
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(out[i], in[by[i]]);
      EXPECT_EQ(out[32 + i], in[i - distance < 0 ? i : i - distance]);
      EXPECT_EQ(out[64 + i], in[i + distance > 31 ? i : i + distance]);
      EXPECT_EQ(out[96 + i], in[i ^ distance]);
    }
  }
}

TEST_P(Primitives, VotesCountEveryLane) {
  for (const std::uint32_t mask : {0u, 1u, 0x80000000u, 0x12345678u, 0xFFFFFFFFu, 0xFFFFFFFEu}) {
    std::vector<std::uint32_t> out(96);
    emulator_.launch(Votes{}, {}, {view(out), mask});
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(out[3 * i], mask);
      EXPECT_EQ(out[3 * i + 1], mask != 0);
      EXPECT_EQ(out[3 * i + 2], mask == 0xFFFFFFFFu);
    }
  }
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", as it stands there.
int row_of_a(int lane, int i) {
  return i < 2 || (4 <= i && i < 6) ? (lane >> 2) : (lane >> 2) + 8;
}
int column_of_a(int lane, int i) {
  return (lane % 4 * 2) + (i & 1) + (i < 4 ? 0 : 8);
}
int row_of_b(int lane, int i) {
  return (lane % 4 * 2) + (i & 1) + (i < 2 ? 0 : 8);
}
int column_of_b(int lane, int) {
  return lane >> 2;
}
int row_of_c(int lane, int i) {
  return i < 2 ? (lane >> 2) : (lane >> 2) + 8;
}
int column_of_c(int lane, int i) {
  return (lane % 4 * 2) + (i & 1);
}

template <half T>
void expect_mma_is_a_product(simt::Emulator& emulator, const Philox& random) {
  double a[16][16];
  double b[16][8];
  double c[16][8];
  std::vector<std::uint32_t> fragments_a(32 * 4);
  std::vector<std::uint32_t> fragments_b(32 * 2);
  std::vector<float> d(32 * 4);
  std::uint64_t drawn = 0;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const T value(random.normal(drawn++));
      a[row_of_a(lane, i)][column_of_a(lane, i)] = static_cast<float>(value);
      fragments_a[4 * lane + i / 2] |= static_cast<std::uint32_t>(value.bits) << (16 * (i % 2));
    }
    for (int i = 0; i < 4; ++i) {
      const T value(random.normal(drawn++));
      b[row_of_b(lane, i)][column_of_b(lane, i)] = static_cast<float>(value);
      fragments_b[2 * lane + i / 2] |= static_cast<std::uint32_t>(value.bits) << (16 * (i % 2));
      d[4 * lane + i] = random.normal(drawn++);
      c[row_of_c(lane, i)][column_of_c(lane, i)] = d[4 * lane + i];
    }
  }
  const simt::Counters counters =
      emulator.launch(Mma<T>{}, {}, {{fragments_a.data(), 128}, {fragments_b.data(), 64}, view(d)});
  EXPECT_EQ(counters.mma, 1);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = row_of_c(lane, i);
      const int column = column_of_c(lane, i);
      double sum = c[row][column];
      double size = std::abs(sum);
      for (int k = 0; k < 16; ++k) {
        sum += a[row][k] * b[k][column];
        size += std::abs(a[row][k] * b[k][column]);
      }
      // 16 float32 additions.
      EXPECT_NEAR(d[4 * lane + i], sum, 16 * 0x1p-24 * size) << "lane " << lane << ", element " << i;
    }
  }
}

TEST_P(Primitives, MmaIsTheProductOfItsFragments) {
  expect_mma_is_a_product<BFloat16>(emulator_, random_);
  expect_mma_is_a_product<Float16>(emulator_, random_);
}

template <int N, bool Transposed>
void expect_ldmatrix_loads_its_rows(simt::Emulator& emulator) {
  std::vector<BFloat16> in(64 * N);
  for (int i = 0; i < 64 * N; ++i) in[i].bits = static_cast<std::uint16_t>(i);
  std::vector<std::uint32_t> out(32 * N);
  const simt::Counters counters =
      emulator.launch(Ldmatrix<N, Transposed>{}, {}, {{in.data(), 64 * N}, view(out)});
  EXPECT_EQ(counters.ldmatrix, 1);
  EXPECT_EQ(counters.bank_conflicts(), 0);
  // PTX ISA, "Warp-level matrix load instruction: ldmatrix": thread t has elements 2(t % 4) and 2(t % 4) + 1
  // of row t / 4, with .trans of column t / 4.
  for (int t = 0; t < 32; ++t) {
    for (int m = 0; m < N; ++m) {
      for (int i = 0; i < 2; ++i) {
        const int along = t % 4 * 2 + i;
        const int expected = 64 * m + (Transposed ? 8 * along + t / 4 : 8 * (t / 4) + along);
        EXPECT_EQ((out[N * t + m] >> (16 * i)) & 0xFFFF, static_cast<std::uint32_t>(expected));
      }
    }
  }
}

TEST_P(Primitives, LdmatrixGivesEachLaneItsElements) {
  expect_ldmatrix_loads_its_rows<1, false>(emulator_);
  expect_ldmatrix_loads_its_rows<2, false>(emulator_);
  expect_ldmatrix_loads_its_rows<4, false>(emulator_);
  expect_ldmatrix_loads_its_rows<1, true>(emulator_);
  expect_ldmatrix_loads_its_rows<2, true>(emulator_);
  expect_ldmatrix_loads_its_rows<4, true>(emulator_);
}

TEST_P(Primitives, CopiesArriveInGroups) {
  std::vector<float> in(3 * 128);
  std::iota(in.begin(), in.end(), 1.0f);
  std::vector<float> out(3 * 128);
  emulator_.launch(Copies{}, {}, {{in.data(), 384}, view(out)});
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], in[i]);
  for (int i = 256; i < 384; ++i) EXPECT_EQ(out[i], i / 4 % 2 == 0 ? in[i] : 0.0f);
}

TEST_P(Primitives, AtomicsLoseNothing) {
  std::vector<float> sums(2);
  emulator_.launch(Atomics{}, {.x = 5}, {view(sums)});
  EXPECT_EQ(sums[0], 5 * 63 * 32);
  EXPECT_EQ(sums[1], 5 * 63 * 32);
}

TEST_P(Primitives, Exp2FlushesSubnormalNumbers) {
  std::vector<float> x(32);
  for (int i = 0; i < 32; ++i) x[i] = -140.0f + 8.25f * static_cast<float>(i);
  std::vector<float> out = x;
  emulator_.launch(Exp2{}, {}, {view(out)});
  for (int i = 0; i < 32; ++i) {
    const double exact = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(out[i], exact < 0x1p-126 ? 0.0 : exact, 0x1p-22 * exact);
  }
}

TEST_P(Primitives, ReciprocalFlushesSubnormalNumbers) {
  std::vector<float> x = {0.0f, -0.0f, 0x1p-127f, -0x1p-140f, 0x1p127f, INFINITY, -INFINITY, NAN};
  for (int i = 8; i < 32; ++i) x.push_back(static_cast<float>(i) * (i % 2 == 0 ? 0.3f : -1e9f));
  std::vector<float> out = x;
  emulator_.launch(Reciprocal{}, {}, {view(out)});
  EXPECT_EQ(out[0], INFINITY);
  EXPECT_EQ(out[1], -INFINITY);
  EXPECT_EQ(out[2], INFINITY);
  EXPECT_EQ(out[3], -INFINITY);
  EXPECT_EQ(out[4], 0.0f);
  EXPECT_EQ(out[5], 0.0f);
  EXPECT_EQ(out[6], 0.0f);
  EXPECT_TRUE(std::isnan(out[7]));
  for (std::size_t i = 8; i < 32; ++i) {
    const double exact = 1 / static_cast<double>(x[i]);
    EXPECT_NEAR(out[i], exact, 0x1p-23 * std::abs(exact));
  }
}

TEST_P(Primitives, VectorsMoveSixteenBytes) {
  std::vector<Float16> in(256);
  for (int i = 0; i < 256; ++i) in[i].bits = static_cast<std::uint16_t>(i);
  std::vector<Float16> out(256);
  emulator_.launch(Vectors{}, {}, {{in.data(), 256}, view(out)});
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i].bits, 8 * (31 - i / 8) + i % 8);
}

TEST_P(Primitives, NamedBarriersHoldTheirWarpsOnly) {
  std::vector<std::int32_t> out(256);
  emulator_.launch(NamedBarriers{}, {}, {view(out)});
  for (int t = 0; t < 128; ++t) {
    EXPECT_EQ(out[t], t ^ 63);
    EXPECT_EQ(out[128 + t], 127 - t);
  }
}

}  // namespace
}  // namespace trilith::test
