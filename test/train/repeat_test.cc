// Law 4, runs repeat: the same seed gives the same bits, whatever the threads' timing.

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

constexpr int steps = 4;

struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  WholeTensors weights;
};

Outcome run(const Layout& layout, const GptShape& shape, Index sequences, Index length, int threads,
            std::uint64_t seed) {
  TrainerOptions options = options_for(reference::random_batch(shape, sequences, length, 0), 2);
  options.threads_per_rank = threads;
  options.seed = seed;
  const auto trainer = make_trainer(layout, shape, options);
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const StepReport report = trainer->step(reference::random_batch(shape, sequences, length, 1 + step));
    outcome.losses.push_back(report.loss);
    outcome.norms.push_back(report.gradient_norm);
  }
  outcome.weights = trainer->weights();
  return outcome;
}

void expect_same(const Outcome& actual, const Outcome& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  expect_same_bits(actual.weights, expected.weights);
}

constexpr GptShape small{.layers = 4, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37};

TEST(Runs, RepeatInEveryLayout) {
  for (const Layout& layout : all_layouts()) {
    SCOPED_TRACE(testing::Message() << layout);
    const Outcome expected = run(layout, small, 8, 11, 1, 7);
    expect_same(run(layout, small, 8, 11, 1, 7), expected);
  }
}

// Large enough for every operation to be shared out to the threads.
TEST(Runs, RepeatWithSeveralThreadsARank) {
  const GptShape shape{.layers = 2, .hidden = 128, .heads = 4, .positions = 64, .vocabulary = 700};
  for (const Layout& layout : {Layout{1, 1, 1}, Layout{2, 1, 1}, Layout{1, 2, 1}, Layout{1, 1, 2}}) {
    SCOPED_TRACE(testing::Message() << layout);
    const Outcome expected = run(layout, shape, 8, 64, 2, 7);
    expect_same(run(layout, shape, 8, 64, 2, 7), expected);
  }
}

TEST(Runs, OfAnotherSeedDiffer) {
  const Outcome one = run({1, 2, 1}, small, 4, 11, 1, 7);
  const Outcome other = run({1, 2, 1}, small, 4, 11, 1, 8);
  EXPECT_NE(one.losses, other.losses);
  EXPECT_NE(one.weights.at("wpe.weight"), other.weights.at("wpe.weight"));
  EXPECT_NE(one.weights.at("h.3.mlp.c_fc.weight"), other.weights.at("h.3.mlp.c_fc.weight"));
}

}  // namespace
}  // namespace trilith::test
