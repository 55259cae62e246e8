// Merging carries of an online softmax: associative, commutative, with an identity, and never NaN.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/mask/softmax_carry.hpp>

namespace trilith {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A carry with its output, of one query and values that are numbers.
struct Piece {
  SoftmaxCarry<double> carry{-infinity, 0};
  double out = 0;

  double lse() const { return carry.maximum + std::log(carry.sum); }
  double result() const { return carry.sum > 0 ? out / carry.sum : 0; }
};

Piece operator+(const Piece& a, const Piece& b) {
  const auto merged = merge(a.carry, b.carry, [](double x) { return std::exp(x); });
  return {merged.carry, merged.factor_a * a.out + merged.factor_b * b.out};
}

// Of normalised results, as other implementations hand them over.
Piece piece(double result, double lse) {
  return {{lse, lse == -infinity ? 0.0 : 1.0}, result};
}

Piece of_keys(const std::vector<double>& scores, const std::vector<double>& values) {
  Piece all;
  for (std::size_t i = 0; i < scores.size(); ++i) all = all + piece(values[i], scores[i]);
  return all;
}

void expect_near(const Piece& a, const Piece& b) {
  EXPECT_NEAR(a.result(), b.result(), 1e-13 * (1 + std::abs(b.result())));
  if (b.lse() == -infinity) {
    EXPECT_EQ(a.lse(), -infinity);
  } else {
    EXPECT_NEAR(a.lse(), b.lse(), 1e-13 * (1 + std::abs(b.lse())));
  }
}

TEST(SoftmaxMerge, DoesNotOverflowAndKeepsWhatIsMissingOut) {
  EXPECT_EQ((piece(0, 0) + piece(3, 100)).result(), 3);
  EXPECT_EQ((piece(0, 0) + piece(3, 100)).lse(), 100);
  EXPECT_EQ((piece(2, 1e300) + piece(3, -1e300)).result(), 2);
  const Piece nothing = piece(0, -infinity) + piece(0, -infinity);
  EXPECT_EQ(nothing.result(), 0);
  EXPECT_EQ(nothing.lse(), -infinity);
  EXPECT_EQ((piece(0, -infinity) + piece(7, 5)).result(), 7);
  EXPECT_EQ((piece(7, 5) + piece(0, -infinity)).lse(), 5);
}

TEST(SoftmaxMerge, IsAssociativeAndCommutativeWithTheCarryOfNoKeysAsItsIdentity) {
  const Philox random(3, 0);
  std::uint64_t use = 0;
  for (const double scale : {0.1, 1.0, 30.0, 300.0}) {
    for (int round = 0; round < 200; ++round) {
      Piece pieces[3];
      for (Piece& p : pieces) {
        const bool hidden = random.uniform(use++) < 0.2f;  // any mixture of −∞
        const double lse = scale * double{random.normal(use++)};
        p = hidden ? piece(0, -infinity) : piece(double{random.normal(use++)}, lse);
      }
      const auto& [a, b, c] = pieces;
      expect_near((a + b) + c, a + (b + c));
      expect_near(a + b, b + a);
      expect_near(a + Piece{}, a);
      expect_near(Piece{} + a, a);
      EXPECT_FALSE(std::isnan(((a + b) + c).result()));
      EXPECT_FALSE(std::isnan(((a + b) + c).lse()));
    }
  }
}

TEST(SoftmaxMerge, OfPiecesIsTheSoftmaxOfAllKeys) {
  const Philox random(4, 0);
  std::vector<double> scores, values;
  for (std::uint64_t i = 0; i < 64; ++i) {
    scores.push_back(10 * double{random.normal(2 * i)});
    values.push_back(double{random.normal(2 * i + 1)});
  }
  double sum = 0, out = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    sum += std::exp(scores[i]);
    out += std::exp(scores[i]) * values[i];
  }
  for (const std::size_t cut : {0, 1, 17, 63, 64}) {
    const auto part = [&](std::size_t from, std::size_t to) {
      return of_keys({scores.begin() + static_cast<std::ptrdiff_t>(from),
                      scores.begin() + static_cast<std::ptrdiff_t>(to)},
                     {values.begin() + static_cast<std::ptrdiff_t>(from),
                      values.begin() + static_cast<std::ptrdiff_t>(to)});
    };
    const Piece all = part(0, cut) + part(cut, 64);
    EXPECT_NEAR(all.result(), out / sum, 1e-12);
    EXPECT_NEAR(all.lse(), std::log(sum), 1e-12);
  }
}

}  // namespace
}  // namespace trilith
