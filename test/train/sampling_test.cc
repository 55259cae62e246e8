// What is asked of a corpus, and the batches drawn from it.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/train/corpus.hpp>
#include <trilith/train/sampling.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using testing::HasSubstr;

// Every token once, so that a token is its own position.
Corpus counting(int training, int validation) {
  Corpus corpus{.source = "data", .vocabulary = 65536, .training = {}, .validation = {}};
  corpus.training.resize(static_cast<std::size_t>(training));
  corpus.validation.resize(static_cast<std::size_t>(validation));
  std::iota(corpus.training.begin(), corpus.training.end(), Token{0});
  std::iota(corpus.validation.begin(), corpus.validation.end(), Token{0});
  return corpus;
}

std::vector<std::int32_t> row(const std::vector<std::int32_t>& values, Index index, Index length) {
  return {values.begin() + index * length, values.begin() + (index + 1) * length};
}

TEST(CheckTokens, NamesTheFirstTokenOutsideTheVocabulary) {
  Corpus corpus = counting(100, 100);
  EXPECT_EQ(error_of([&] { check_tokens(corpus, 100); }), "");
  EXPECT_EQ(
      error_of([&] { check_tokens(corpus, 70); }),
      "token 70 at position 70 of the training tokens of data lies outside the model's vocabulary of 70; "
      "give the vocabulary that the tokens were made with, or other data");
  corpus.training = {1};
  EXPECT_THAT(error_of([&] { check_tokens(corpus, 99); }),
              HasSubstr("token 99 at position 99 of the validation tokens of data lies outside"));
  corpus.validation = {65535};
  EXPECT_EQ(error_of([&] { check_tokens(corpus, 65536); }), "");
  EXPECT_NE(error_of([&] { check_tokens(corpus, 65535); }), "");
}

TEST(CheckLength, WantsASequenceAndItsLastTargetInBothParts) {
  EXPECT_EQ(error_of([] { check_length(counting(11, 11), 10); }), "");
  EXPECT_EQ(error_of([] { check_length(counting(10, 11), 10); }),
            "a sequence of length 10 needs 11 tokens, but the training part of data has 10; give a shorter "
            "sequence or more data (held-out text that also stands in the training part counts in neither)");
  EXPECT_THAT(error_of([] { check_length(counting(11, 3), 10); }),
              HasSubstr("the validation part of data has 3"));
  EXPECT_THAT(error_of([] { check_length(counting(11, 0), 10); }), HasSubstr("has 0"));
  EXPECT_THAT(error_of([] { check_length(counting(11, 11), 0); }), HasSubstr("at least one token"));
}

TEST(UnigramEntropy, IsThatOfTheTokensOwnFrequencies) {
  EXPECT_EQ(unigram_entropy({}), 0);
  EXPECT_EQ(unigram_entropy(std::vector<Token>(7, 65535)), 0);
  EXPECT_NEAR(unigram_entropy(counting(256, 0).training), std::log(256.0), 1e-12);
  // Shares 1/2, 1/4, 1/4: 1.5 bits.
  EXPECT_NEAR(unigram_entropy(std::vector<Token>{9, 9, 1, 2}), 1.5 * std::log(2.0), 1e-15);
}

TEST(TrainingBatch, HoldsStretchesOfTheTextAndTheTokensAfterThem) {
  const Corpus corpus = counting(1000, 0);
  for (const Index length : {1, 7, 64, 999}) {
    const Batch batch = training_batch(corpus, 5, length, 1, 2);
    ASSERT_EQ(batch.sequences, 5);
    ASSERT_EQ(batch.length, length);
    ASSERT_EQ(batch.tokens.size(), static_cast<std::size_t>(5 * length));
    ASSERT_EQ(batch.targets.size(), batch.tokens.size());
    for (Index i = 0; i < 5; ++i) {
      const auto tokens = row(batch.tokens, i, length);
      const auto targets = row(batch.targets, i, length);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        ASSERT_EQ(tokens[t], tokens[0] + static_cast<int>(t));
        ASSERT_EQ(targets[t], tokens[t] + 1);
      }
    }
  }
}

TEST(TrainingBatch, DependsOnSeedStepAndSequenceAlone) {
  const Corpus corpus = counting(60000, 0);
  const Batch whole = training_batch(corpus, 8, 16, 3, 4);
  EXPECT_EQ(training_batch(corpus, 8, 16, 3, 4).tokens, whole.tokens);
  for (const Index sequences : {1, 2, 7}) {
    const Batch part = training_batch(corpus, sequences, 16, 3, 4);
    for (Index i = 0; i < sequences; ++i) EXPECT_EQ(row(part.tokens, i, 16), row(whole.tokens, i, 16));
  }
  std::set<std::int32_t> begins;
  for (const std::uint64_t seed : {0, 1}) {
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Batch batch = training_batch(corpus, 4, 16, seed, step);
      for (Index i = 0; i < 4; ++i) begins.insert(row(batch.tokens, i, 16)[0]);
    }
  }
  EXPECT_GE(begins.size(), 31u);  // of 32: a single one may repeat among 60000
}

TEST(TrainingBatch, DrawsTheSameForEver) {
  // Computed apart from this code, so that a later version repeats the runs of this one.
  const Batch batch = training_batch(counting(50000, 0), 3, 8, 1337, 10);
  EXPECT_THAT((std::vector{batch.tokens[0], batch.tokens[8], batch.tokens[16]}),
              testing::ElementsAre(11148, 16886, 24228));
}

TEST(TrainingBatch, BeginsAtEveryPlaceThatLeavesATarget) {
  const Corpus corpus = counting(21, 0);
  std::map<std::int32_t, int> begins;
  for (std::uint64_t step = 0; step < 100; ++step) {
    const Batch batch = training_batch(corpus, 16, 8, 5, step);
    for (Index i = 0; i < 16; ++i) ++begins[row(batch.tokens, i, 8)[0]];
  }
  // 1600 draws among 13 places: 123 each, and 5 standard deviations are 53.
  ASSERT_EQ(begins.size(), 13u);
  for (const auto& [place, count] : begins) EXPECT_NEAR(count, 123, 53) << place;
  EXPECT_EQ(begins.begin()->first, 0);
  EXPECT_EQ(begins.rbegin()->first, 12);
}

TEST(ValidationBatches, CountEveryTokenButTheFirstOnce) {
  for (int size = 2; size < 60; ++size) {
    const Corpus corpus = counting(0, size);
    for (const Index sequences : {1, 2, 5}) {
      for (const Index length : {1, 4, 7}) {
        std::vector<std::int32_t> targets;
        for (Index b = 0; b < validation_batches(corpus, sequences, length); ++b) {
          const Batch batch = validation_batch(corpus, sequences, length, b);
          ASSERT_EQ(batch.tokens.size(), static_cast<std::size_t>(sequences * length));
          const std::size_t before = targets.size();
          for (std::size_t i = 0; i < batch.targets.size(); ++i) {
            if (batch.targets[i] == ignored_target) {
              EXPECT_EQ(batch.tokens[i], 0);
              continue;
            }
            EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
            targets.push_back(batch.targets[i]);
          }
          EXPECT_GT(targets.size(), before) << "a batch without targets";
        }
        std::vector<std::int32_t> all(static_cast<std::size_t>(size - 1));
        std::iota(all.begin(), all.end(), 1);
        ASSERT_EQ(targets, all) << size << " " << sequences << " " << length;
      }
    }
  }
}

TEST(ValidationBatches, AreNoneWhereThereIsNothingToPredict) {
  EXPECT_EQ(validation_batches(counting(0, 0), 2, 4), 0);
  EXPECT_EQ(validation_batches(counting(0, 1), 2, 4), 0);
}

}  // namespace
}  // namespace trilith
