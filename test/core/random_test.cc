// Philox against its authors' known answers, and what becomes of its words: uniform and normal numbers that
// depend on nothing but seed, stream and index.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>

namespace trilith {
namespace {

using Words = std::array<std::uint32_t, 4>;

// philox4x32-10 of tests/kat_vectors in Random123, the library of the paper's authors: four counter words and
// two key words, the lowest first. Here the counter is index and stream, the key is the seed.
TEST(Philox, GivesTheKnownAnswers) {
  static_assert(Philox(0, 0).block(0) == Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});

  constexpr std::uint64_t ones = ~std::uint64_t{0};
  static_assert(Philox(ones, ones).block(ones) == Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});

  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0: the digits of π, so that no two words
  // are equal and each has its own place.
  static_assert(Philox(0x299F31D0'A4093822, 0x03707344'13198A2E).block(0x85A308D3'243F6A88) ==
                Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST(Philox, DiffersBySeedStreamAndIndexInAllTheirBits) {
  const Words base = Philox(1, 2).block(3);
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t flip = std::uint64_t{1} << bit;
    EXPECT_NE(Philox(1 ^ flip, 2).block(3), base) << bit;
    EXPECT_NE(Philox(1, 2 ^ flip).block(3), base) << bit;
    EXPECT_NE(Philox(1, 2).block(3 ^ flip), base) << bit;
  }
}

TEST(Philox, UniformNumbersFillTheHalfOpenUnitInterval) {
  constexpr int count = 100000;
  const Philox random(7, 0);
  double sum = 0;
  std::array<int, 10> tenths{};
  for (int i = 0; i < count; ++i) {
    const float u = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += double{u};
    ++tenths[static_cast<std::size_t>(u * 10)];
  }
  // Five standard deviations: 1/√(12 n) of the mean, √(n · 0.1 · 0.9) of a tenth's count.
  EXPECT_NEAR(sum / count, 0.5, 5 / std::sqrt(12.0 * count));
  for (const int tenth : tenths) EXPECT_NEAR(tenth, count / 10, 5 * std::sqrt(count * 0.09));
}

std::vector<double> normals(const Philox& random, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(double{random.normal(static_cast<std::uint64_t>(i))});
  return values;
}

double mean_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum / static_cast<double>(a.size());
}

// Tolerances are five standard deviations of the mean of n samples: the k-th power of a normal number has
// variance 1, 2, 15 and 96 for k from 1 to 4.
TEST(Philox, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  constexpr int count = 200000;
  double first = 0, second = 0, third = 0, fourth = 0;
  for (const double x : normals(Philox(11, 5), count)) {
    first += x;
    second += x * x;
    third += x * x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(first / count, 0, 5 * std::sqrt(1.0 / count));
  EXPECT_NEAR(second / count, 1, 5 * std::sqrt(2.0 / count));
  EXPECT_NEAR(third / count, 0, 5 * std::sqrt(15.0 / count));
  EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96.0 / count));
}

TEST(Philox, NeighboursAndStreamsAreNotCorrelated) {
  constexpr int count = 100000;
  const double tolerance = 5 * std::sqrt(1.0 / count);
  const std::vector<double> here = normals(Philox(11, 5), count);
  EXPECT_NEAR(mean_product(here, normals(Philox(11, 6), count)), 0, tolerance);
  EXPECT_NEAR(mean_product(here, normals(Philox(12, 5), count)), 0, tolerance);
  for (int lag = 1; lag <= 4; ++lag) {
    std::vector<double> shifted = here;
    std::rotate(shifted.begin(), shifted.begin() + lag, shifted.end());
    EXPECT_NEAR(mean_product(here, shifted), 0, tolerance) << "lag " << lag;
  }
}

TEST(Philox, NormalNumbersStayWithinTheRadiusOfTheLeastWord) {
  // Word 0 stands for 2⁻³², whose radius is √(2 · 32 · log 2).
  const double most = std::sqrt(64 * std::log(2.0));
  for (const double x : normals(Philox(3, 3), 100000)) ASSERT_LE(std::abs(x), most * (1 + 1e-6));
}

TEST(Philox, NormalsComeInFours) {
  const Philox random(5, 9);
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(random.normal(i), random.normals(i / 4)[i % 4]);
}

}  // namespace
}  // namespace trilith
