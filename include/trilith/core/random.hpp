// Random numbers that depend only on (seed, stream, index), so that a tensor gets the same values however
// it is split over ranks: each rank draws the elements it holds by their global index.
//
// Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace trilith::inline v0 {

class Philox {
 public:
  // `stream` separates uses of one seed (one per tensor, say).
  constexpr Philox(std::uint64_t seed, std::uint64_t stream) : key_{low(seed), high(seed)}, stream_(stream) {}

  // Four independent 32-bit words for counter `index`.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    std::array<std::uint32_t, 4> x{low(index), high(index), low(stream_), high(stream_)};
    std::array<std::uint32_t, 2> key = key_;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p = std::uint64_t{0xD2511F53u} * x[0];
      const std::uint64_t q = std::uint64_t{0xCD9E8D57u} * x[2];
      x = {high(q) ^ x[1] ^ key[0], low(q), high(p) ^ x[3] ^ key[1], low(p)};
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    return x;
  }

  // Uniform in [0, 1), 24 bits.
  constexpr float uniform(std::uint64_t index) const {
    return static_cast<float>(block(index)[0] >> 8) * 0x1p-24f;
  }

  // Normal numbers with mean 0 and variance 1, those with indices 4·quad … 4·quad + 3 (Box and Muller).
  std::array<float, 4> normals(std::uint64_t quad) const {
    const auto words = block(quad);
    std::array<float, 4> result;
    for (int pair = 0; pair < 2; ++pair) {
      const double u = (static_cast<double>(words[2 * pair]) + 1.0) * 0x1p-32;  // (0, 1]
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(words[2 * pair + 1]) * 0x1p-32;
      const double radius = std::sqrt(-2.0 * std::log(u));
      result[2 * pair] = static_cast<float>(radius * std::cos(angle));
      result[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
    return result;
  }

  float normal(std::uint64_t index) const { return normals(index / 4)[index % 4]; }

  // to[i] = deviation · normal(first + i) for 0 ≤ i < count.
  void normals(std::uint64_t first, std::int64_t count, float deviation, float* to) const {
    for (std::int64_t i = 0; i < count;) {
      const std::uint64_t index = first + static_cast<std::uint64_t>(i);
      const std::array<float, 4> quad = normals(index / 4);
      for (std::uint64_t lane = index % 4; lane < 4 && i < count; ++lane, ++i) to[i] = deviation * quad[lane];
    }
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_;
};

}  // namespace trilith::inline v0
