#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/host/cross_entropy.hpp>
#include <trilith/ops/host/elementwise.hpp>

#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Extent;
using test::random_tensor;
using test::Reference;
using test::relative_error;
using test::Tensor;

constexpr float infinity = std::numeric_limits<float>::infinity();

Vector<const std::int32_t> view(const std::vector<std::int32_t>& targets) {
  return {targets.data(), {static_cast<Index>(targets.size())}};
}

// Any column, the first and the last among them; every fifth row has no target.
std::vector<std::int32_t> random_targets(Extent extent) {
  std::vector<std::int32_t> targets;
  for (Index row = 0; row < extent.rows; ++row) {
    const Index column = row == 0 ? extent.columns - 1 : (row * row * 31) % extent.columns;
    targets.push_back(row % 5 == 4 ? -1 : static_cast<std::int32_t>(column));
  }
  return targets;
}

double log_sum_exp(const Tensor& logits, Index row) {
  double max = -std::numeric_limits<double>::infinity();
  for (Index c = 0; c < logits.columns(); ++c) max = std::max(max, double{logits(row, c)});
  double sum = 0;
  for (Index c = 0; c < logits.columns(); ++c) sum += std::exp(double{logits(row, c)} - max);
  return max + std::log(sum);
}

double reference_loss(const Tensor& logits, const std::vector<std::int32_t>& targets) {
  double loss = 0;
  for (Index row = 0; row < logits.rows(); ++row) {
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target >= 0) loss += log_sum_exp(logits, row) - double{logits(row, target)};
  }
  return loss;
}

Reference reference_gradient(const Tensor& logits, const std::vector<std::int32_t>& targets, double scale) {
  Reference gradient(logits.rows(), logits.columns());
  for (Index row = 0; row < logits.rows(); ++row) {
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target < 0) continue;
    const double lse = log_sum_exp(logits, row);
    for (Index c = 0; c < logits.columns(); ++c) {
      const double probability = std::exp(double{logits(row, c)} - lse);
      gradient(row, c) = (probability - (c == target ? 1 : 0)) * scale;
    }
  }
  return gradient;
}

struct Result {
  double loss;
  Tensor gradient;
};

// The loss and gradient as `ranks` ranks compute them, each with an equal share of the columns, the last ones
// with padding. The all-reduces are loops here.
Result split_cross_entropy(const Host::Stream& stream, const Tensor& logits,
                           const std::vector<std::int32_t>& targets, Index ranks, float scale) {
  const Index rows = logits.rows();
  const Index share = (logits.columns() + ranks - 1) / ranks;
  const auto columns = [&](Index rank) {
    return std::clamp<Index>(logits.columns() - rank * share, 0, share);
  };

  std::vector<Tensor> parts, maxima, sums;
  Tensor max = Tensor(rows), sum = Tensor(rows), target_logit = Tensor(rows);
  ops::fill(stream, max.vector(), -infinity);
  ops::fill(stream, sum.vector(), 0.0f);
  ops::fill(stream, target_logit.vector(), 0.0f);
  for (Index rank = 0; rank < ranks; ++rank) {
    Tensor part({rows, share, 2});  // NaN in the padding
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < columns(rank); ++c) part(r, c) = logits(r, rank * share + c);
    }
    Tensor local_max(rows), local_sum(rows), local_target(rows);
    ops::softmax_statistics(stream, part.matrix(), columns(rank), view(targets), rank * share,
                            local_max.vector(), local_sum.vector(), local_target.vector());
    for (Index r = 0; r < rows; ++r) {
      max[r] = std::max(max[r], local_max[r]);
      target_logit[r] += local_target[r];
    }
    parts.push_back(part);
    maxima.push_back(local_max);
    sums.push_back(local_sum);
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    ops::rescale_sums(stream, maxima[rank].vector(), max.vector(), sums[rank].vector());
    ops::add(stream, sums[rank].vector(), sum.vector());
  }
  Result result{std::numeric_limits<double>::quiet_NaN(), Tensor(Extent{rows, logits.columns()})};
  ops::cross_entropy_loss(stream, view(targets), max.vector(), sum.vector(), target_logit.vector(),
                          Vector<double>(&result.loss, {1}));
  for (Index rank = 0; rank < ranks; ++rank) {
    Tensor& part = parts[static_cast<std::size_t>(rank)];
    ops::cross_entropy_backward(stream, part.matrix(), columns(rank), view(targets), rank * share,
                                max.vector(), sum.vector(), scale);
    EXPECT_TRUE(part.padding_untouched());
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < share; ++c) {
        if (c < columns(rank)) {
          result.gradient(r, rank * share + c) = part(r, c);
        } else {
          EXPECT_EQ(part(r, c), 0.0f);
        }
      }
    }
  }
  return result;
}

const std::vector<Extent> extents = {{1, 1}, {7, 2}, {1, 17}, {33, 64}, {6, 2048}, {6, 2049}, {12, 50257}};

TEST(CrossEntropy, EqualsTheReferenceHoweverTheVocabularyIsSplit) {
  for (const Extent extent : extents) {
    const Tensor logits = random_tensor(extent, 1, 3.0f);
    const auto targets = random_targets(extent);
    for (const Index ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(testing::Message() << extent << ", " << ranks << " ranks");
      const Result result = split_cross_entropy(Host::Stream(2), logits, targets, ranks, 0.25f);
      const double expected = reference_loss(logits, targets);
      // The sum of exponentials has a relative error of some 2^-22, which is the loss's absolute error.
      EXPECT_NEAR(result.loss, expected, 1e-6 * static_cast<double>(extent.rows));
      // Logits of up to 15 are rounded to 2^-21 when the maximum is subtracted.
      if (extent.columns > 1) {
        EXPECT_LE(relative_error(result.gradient, reference_gradient(logits, targets, 0.25)), 1e-6);
      }
    }
  }
}

TEST(CrossEntropy, IsRightForLogitsOfTenThousand) {
  for (const float size : {1e3f, 1e4f}) {
    const Extent extent{40, 333};
    const Tensor logits = random_tensor(extent, 2, size);
    const auto targets = random_targets(extent);
    const Result result = split_cross_entropy(Host::Stream(2), logits, targets, 2, 1.0f);
    const double expected = reference_loss(logits, targets);
    EXPECT_NEAR(result.loss, expected, 1e-6 * expected);
    // Differences of logits, of which those below 87 matter, are exact to 2^-11 of 2e4's last place.
    EXPECT_LE(relative_error(result.gradient, reference_gradient(logits, targets, 1)), 1e-5);
  }
}

TEST(CrossEntropy, TakesLogitsOfMinusInfinityAsImpossible) {
  Tensor logits = random_tensor({3, 5000}, 3);
  for (Index c = 0; c < 4500; ++c) logits(0, c) = logits(1, (c + 700) % 5000) = -infinity;
  const std::vector<std::int32_t> targets{4999, 300, 77};
  const Result result = split_cross_entropy(Host::Stream(), logits, targets, 2, 1.0f);
  EXPECT_NEAR(result.loss, reference_loss(logits, targets), 1e-5);
  EXPECT_LE(relative_error(result.gradient, reference_gradient(logits, targets, 1)), 1e-6);
  for (Index c = 0; c < 4500; ++c) ASSERT_EQ(result.gradient(0, c), 0.0f);
}

TEST(CrossEntropy, OfNanIsNan) {
  for (const Index at : {0, 2047, 2048, 4999}) {
    Tensor logits = random_tensor({1, 5000}, 3);
    logits[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(split_cross_entropy(Host::Stream(), logits, {77}, 2, 1.0f).loss));
    for (Index c = at; c < 5000; ++c) logits[c] = logits[at];
    EXPECT_TRUE(std::isnan(split_cross_entropy(Host::Stream(), logits, {77}, 2, 1.0f).loss));
  }
}

TEST(SoftmaxStatistics, OfNothingButPaddingAreNeutral) {
  Tensor logits({3, 20});
  const std::vector<std::int32_t> targets{0, 45, -1};
  Tensor max(Index{3}), sum(Index{3}), target_logit(Index{3});
  ops::softmax_statistics(Host::Stream(), logits.matrix(), 0, view(targets), 40, max.vector(), sum.vector(),
                          target_logit.vector());
  for (Index r = 0; r < 3; ++r) {
    EXPECT_EQ(max[r], -infinity);
    EXPECT_EQ(sum[r], 0.0f);
    EXPECT_EQ(target_logit[r], 0.0f);
  }
}

TEST(CrossEntropy, RowsWithoutTargetHaveNeitherLossNorGradient) {
  const Tensor logits = random_tensor({4, 100}, 4);
  const Result result = split_cross_entropy(Host::Stream(), logits, {-1, -100, -1, -7}, 2, 1.0f);
  EXPECT_EQ(result.loss, 0.0);
  for (Index i = 0; i < 400; ++i) ASSERT_EQ(result.gradient[i], 0.0f);
}

TEST(CrossEntropyBackward, ReferenceAgreesWithFiniteDifferences) {
  const Tensor logits = random_tensor({2, 7}, 5);
  const std::vector<std::int32_t> targets{6, 2};
  const Reference gradient = reference_gradient(logits, targets, 1);
  constexpr float step = 0x1p-8f;  // exact in float32; truncation is of its square
  for (Index r = 0; r < 2; ++r) {
    for (Index c = 0; c < 7; ++c) {
      Tensor up = logits, down = logits;
      up(r, c) += step;
      down(r, c) -= step;
      const double width = double{up(r, c)} - double{down(r, c)};
      const double slope = (reference_loss(up, targets) - reference_loss(down, targets)) / width;
      EXPECT_NEAR(slope, gradient(r, c), 1e-5);
    }
  }
}

TEST(CrossEntropy, SameBitsForAnyNumberOfThreads) {
  for (const Extent extent : {Extent{100, 1001}, Extent{5, 50257}}) {
    const Tensor logits = random_tensor(extent, 6);
    const auto targets = random_targets(extent);
    test::expect_same_bits_for_any_threads([&](const Host::Stream& stream) {
      const Result result = split_cross_entropy(stream, logits, targets, 2, 1.0f);
      Tensor loss(Index{2});
      std::memcpy(&loss[0], &result.loss, sizeof result.loss);
      return std::vector<Tensor>{loss, result.gradient};
    });
  }
}

}  // namespace
}  // namespace trilith
