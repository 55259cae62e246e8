// Philox against its authors' known answers, and what becomes of its words: uniform and normal numbers that
// depend on nothing but seed, stream and index.
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

// Philox run backwards: the index and the stream at which `seed` gives `words`.
struct Place {
  std::uint64_t index;
  std::uint64_t stream;
};
Place place_of(Words words, std::uint64_t seed) {
  // The inverses of the two odd multipliers modulo 2³², by Newton's iteration, which doubles the right bits.
  const auto inverse = [](std::uint32_t odd) {
    std::uint32_t x = odd;  // right to 3 bits
    for (int bits = 3; bits < 32; bits *= 2) x *= 2 - odd * x;
    return x;
  };
  const auto high = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
  };
  constexpr std::uint32_t m0 = 0xD2511F53, m1 = 0xCD9E8D57;
  for (std::uint32_t round = 10; round-- > 0;) {
    const std::uint32_t key0 = static_cast<std::uint32_t>(seed) + round * 0x9E3779B9u;
    const std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32) + round * 0xBB67AE85u;
    const std::uint32_t x0 = words[3] * inverse(m0);
    const std::uint32_t x2 = words[1] * inverse(m1);
    words = {x0, words[0] ^ high(m1, x2) ^ key0, x2, words[2] ^ high(m0, x0) ^ key1};
  }
  return {words[0] | std::uint64_t{words[1]} << 32, words[2] | std::uint64_t{words[3]} << 32};
}

// Word 0 stands for 2⁻³², whose radius is √(2 · 32 · log 2), and not for 0, whose radius would be infinite.
TEST(Philox, NormalIsFiniteAtTheLeastWord) {
  const Place place = place_of({0, 0, 0, 0}, 7);
  const Philox random(7, place.stream);
  ASSERT_EQ(random.block(place.index), (Words{0, 0, 0, 0}));
  EXPECT_EQ(random.uniform(place.index), 0);
  EXPECT_FLOAT_EQ(random.normals(place.index)[0], static_cast<float>(std::sqrt(64 * std::log(2.0))));
  EXPECT_EQ(random.normals(place.index)[1], 0);
}

TEST(Philox, UniformIsLessThanOneAtTheLargestWord) {
  constexpr std::uint32_t largest = 0xFFFFFFFF;
  const Place place = place_of({largest, largest, largest, largest}, 7);
  EXPECT_EQ(Philox(7, place.stream).uniform(place.index), 1 - 0x1p-24f);
}

TEST(Philox, NormalsComeInFours) {
  const Philox random(5, 9);
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(random.normal(i), random.normals(i / 4)[i % 4]);
}

TEST(Philox, NormalsOfARangeAreThoseOfItsIndices) {
  const Philox random(5, 9);
  for (const std::uint64_t first : {0, 1, 2, 3, 4, 1021}) {
    for (const std::int64_t count : {0, 1, 2, 3, 4, 5, 11}) {
      std::vector<float> values(static_cast<std::size_t>(count) + 1, -1.0f);
      random.normals(first, count, 0.5f, values.data());
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
        EXPECT_EQ(values[i], 0.5f * random.normal(first + i));
      }
      EXPECT_EQ(values.back(), -1.0f) << "written past the end";
    }
  }
}

}  // namespace
}  // namespace trilith
