#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/ops/cuda/cross_entropy.hpp>
#include <trilith/ops/cuda/elementwise.hpp>

#include "test/support/elements.hpp"

namespace trilith::test {
namespace {

template <class T>
class CrossEntropyKernels : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropyKernels, ElementTypes);

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float scale = 0.25f;

using Numbers = std::vector<std::int32_t>;

Vector<const std::int32_t> view(const Numbers& numbers) {
  return {numbers.data(), {static_cast<Index>(numbers.size())}};
}

// Any column, the last among them; every fifth row has no target.
Numbers targets_of(const Extent& extent) {
  Numbers targets;
  for (Index row = 0; row < extent.rows; ++row) {
    const Index column = row == 0 ? extent.columns - 1 : row * row * 31 % extent.columns;
    targets.push_back(row % 5 == 4 ? -1 : static_cast<std::int32_t>(column));
  }
  return targets;
}

template <class T>
struct Result {
  Elements<double> loss{Index{1}};
  std::vector<Elements<T>> gradients;  // of each rank

  bool operator==(const Result&) const = default;
};

// As `ranks` ranks compute them, each with an equal share of the columns, the last ones with padding. The
// all-reduces are loops here.
template <class T>
Result<T> split_cross_entropy(const Emulated::Stream& s, const Elements<T>& logits, const Numbers& targets,
                              Index ranks, Index padding) {
  const Index rows = logits.rows();
  const Index share = (logits.columns() + ranks - 1) / ranks;
  const auto columns = [&](Index rank) {
    return std::clamp<Index>(logits.columns() - rank * share, 0, share);
  };
  Result<T> result;
  std::vector<Elements<float>> maxima;
  std::vector<Elements<float>> sums;
  Elements<float> max(rows);
  Elements<float> sum(rows);
  Elements<float> target_logit(rows);
  ops::fill(s, max.vector(), -infinity);
  ops::fill(s, sum.vector(), 0.0f);
  ops::fill(s, target_logit.vector(), 0.0f);
  for (Index rank = 0; rank < ranks; ++rank) {
    Elements<T> part({rows, share, padding});
    for (Index row = 0; row < rows; ++row) {
      for (Index c = 0; c < columns(rank); ++c) {
        part(row, c) = const_cast<Elements<T>&>(logits)(row, rank * share + c);
      }
    }
    Elements<float> local_max(rows);
    Elements<float> local_sum(rows);
    Elements<float> local_target(rows);
    ops::softmax_statistics(s, part.matrix(), columns(rank), view(targets), rank * share, local_max.vector(),
                            local_sum.vector(), local_target.vector());
    for (Index row = 0; row < rows; ++row) max[row] = std::max(max[row], local_max[row]);
    ops::add(s, local_target.vector(), target_logit.vector());
    result.gradients.push_back(part);
    maxima.push_back(local_max);
    sums.push_back(local_sum);
  }
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    ops::rescale_sums(s, maxima[rank].vector(), max.vector(), sums[rank].vector());
    ops::add(s, sums[rank].vector(), sum.vector());
  }
  ops::cross_entropy_loss(s, view(targets), max.vector(), sum.vector(), target_logit.vector(),
                          result.loss.vector());
  for (Index rank = 0; rank < ranks; ++rank) {
    ops::cross_entropy_backward(s, result.gradients[static_cast<std::size_t>(rank)].matrix(), columns(rank),
                                view(targets), rank * share, max.vector(), sum.vector(), scale);
  }
  return result;
}

template <class T>
double log_sum_exp(const Elements<T>& logits, Index row) {
  double max = -std::numeric_limits<double>::infinity();
  for (Index c = 0; c < logits.columns(); ++c) max = std::max(max, logits(row, c));
  double sum = 0;
  for (Index c = 0; c < logits.columns(); ++c) sum += std::exp(logits(row, c) - max);
  return max + std::log(sum);
}

template <class T>
void expect_cross_entropy(const Elements<T>& logits, const Numbers& targets, Index ranks,
                          const Result<T>& result, double deviation) {
  // What is exponentiated is rounded, where it counts, at about the deviation of the logits.
  const double relative = 0x1p-22 * (4 + 4 * deviation);
  const Index share = (logits.columns() + ranks - 1) / ranks;
  double loss = 0;
  std::vector<double> lse;
  for (Index row = 0; row < logits.rows(); ++row) {
    lse.push_back(log_sum_exp(logits, row));
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target >= 0) loss += lse.back() - logits(row, target);
  }
  EXPECT_NEAR(result.loss[0], loss, relative * static_cast<double>(logits.rows()));
  for (Index rank = 0; rank < ranks; ++rank) {
    const Elements<T>& part = result.gradients[static_cast<std::size_t>(rank)];
    expect_near(part, [&](Index row, Index c) {
      const Index column = rank * share + c;
      const std::int32_t target = targets[static_cast<std::size_t>(row)];
      if (target < 0 || column >= logits.columns()) return Near{0, 0};
      const double probability = std::exp(logits(row, column) - lse[static_cast<std::size_t>(row)]);
      // Exponentials below 2^-126 are zero.
      return Near{double{scale} * (probability - (column == target)),
                  double{scale} * relative * probability + 0x1p-126};
    });
    EXPECT_TRUE(part.padding_untouched());
  }
}

// 70 columns, split over three ranks, leave the last one padding that begins within a load.
TYPED_TEST(CrossEntropyKernels, EqualTheReferenceHoweverTheVocabularyIsSplit) {
  using T = TypeParam;
  for (const Extent& extent : {Extent{1, 1}, Extent{7, 2}, Extent{6, 33}, Extent{5, 70}, Extent{6, 1001, 2},
                               Extent{6, 2055, 9}, Extent{2, 5000}}) {
    const auto logits = random_elements<T>(extent, 1, 3);
    const auto targets = targets_of(extent);
    for (const Index ranks : {1, 3}) {
      SCOPED_TRACE(testing::Message() << extent << ", " << ranks << " ranks");
      const auto result = in_every_order([&](const Emulated::Stream& s) {
        return split_cross_entropy(s, logits, targets, ranks, extent.padding);
      });
      expect_cross_entropy(logits, targets, ranks, result, 3);
    }
  }
}

TYPED_TEST(CrossEntropyKernels, LargeLogitsOverflowNothing) {
  using T = TypeParam;
  const Extent extent{6, 515};
  for (const float mean : {30000.0f, -30000.0f}) {
    const auto logits = random_elements<T>(extent, 1, 1000, mean);
    const auto targets = targets_of(extent);
    const auto result = in_every_order(
        [&](const Emulated::Stream& s) { return split_cross_entropy(s, logits, targets, 3, 0); });
    expect_cross_entropy(logits, targets, 3, result, 1000);
  }
}

TYPED_TEST(CrossEntropyKernels, OfNoColumnsAndOfMinusInfinity) {
  using T = TypeParam;
  const Emulated::Stream s;
  Elements<T> logits(Extent{2, 9});
  ops::fill(s, logits.vector(), -infinity);
  Elements<float> max(Index{2});
  Elements<float> sum(Index{2});
  Elements<float> target_logit(Index{2});
  for (const Index columns : {0, 9}) {
    ops::softmax_statistics(s, logits.matrix(), columns, view({20, 3}), 5, max.vector(), sum.vector(),
                            target_logit.vector());
    for (Index row : {0, 1}) {
      EXPECT_EQ(max[row], -infinity);
      EXPECT_EQ(sum[row], 0.0f);
      EXPECT_EQ(target_logit[row], 0.0f);
    }
  }
  logits(1, 4) = T(2.0f);
  ops::softmax_statistics(s, logits.matrix(), 9, view({20, 9}), 5, max.vector(), sum.vector(),
                          target_logit.vector());
  EXPECT_EQ(max[1], 2.0f);
  EXPECT_EQ(sum[1], 1.0f);
  EXPECT_EQ(target_logit[1], 2.0f);
}

TYPED_TEST(CrossEntropyKernels, ANanMakesTheSumNan) {
  using T = TypeParam;
  const Emulated::Stream s;
  auto logits = random_elements<T>(2000, 1);
  Elements<float> max(Index{1});
  Elements<float> sum(Index{1});
  Elements<float> target_logit(Index{1});
  for (const Index at : {0, 7, 1999}) {
    auto spoilt = logits;
    spoilt(0, at) = T(std::numeric_limits<float>::quiet_NaN());
    ops::softmax_statistics(s, spoilt.matrix(), 2000, view({1}), 0, max.vector(), sum.vector(),
                            target_logit.vector());
    EXPECT_TRUE(std::isnan(sum[0]));
  }
}

TYPED_TEST(CrossEntropyKernels, LoadEachLogitOnceAndMoveWholeSectors) {
  using T = TypeParam;
  const Emulated::Stream s;
  auto logits = random_elements<T>({3, 4096}, 1);
  const Numbers targets(3, -1);
  Elements<float> max(Index{3});
  Elements<float> sum(Index{3});
  Elements<float> target_logit(Index{3});
  ops::softmax_statistics(s, logits.matrix(), 4096, view(targets), 0, max.vector(), sum.vector(),
                          target_logit.vector());
  const Index bytes = 3 * 4096 * static_cast<Index>(sizeof(T));
  EXPECT_EQ(s.counters().global_loads.sectors * 32, bytes + 3 * 32);  // and the target
  EXPECT_EQ(s.counters().bank_conflicts(), 0);
  s.clear_counters();
  ops::cross_entropy_backward(s, logits.matrix(), 4096, view(targets), 0, max.vector(), sum.vector(), scale);
  EXPECT_EQ(s.counters().global_stores.sectors * 32, bytes);
}

TYPED_TEST(CrossEntropyKernels, OfNoRowsIsNoLoss) {
  using T = TypeParam;
  const Emulated::Stream s;
  Elements<T> logits(Extent{0, 8});
  Elements<float> none(Index{0});
  Elements<double> loss(Index{1});
  ops::softmax_statistics(s, logits.matrix(), 8, view({}), 0, none.vector(), none.vector(), none.vector());
  ops::rescale_sums(s, none.vector(), none.vector(), none.vector());
  ops::cross_entropy_backward(s, logits.matrix(), 8, view({}), 0, none.vector(), none.vector(), scale);
  expect_no_launch(s);
  ops::cross_entropy_loss(s, view({}), none.vector(), none.vector(), none.vector(), loss.vector());
  EXPECT_EQ(loss[0], 0.0);
}

}  // namespace
}  // namespace trilith::test
