// Steps of training on GPUs, in 16-bit precision.
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using CudaStep = GpuTest;

using OneRank = Parallelism<1, 1, 1>;

constexpr GptShape shape{.layers = 2, .hidden = 128, .heads = 2, .positions = 64, .vocabulary = 256};

Batch counting_batch() {
  Batch batch{.sequences = 4, .length = 64};
  for (int i = 0; i < 4 * 64; ++i) {
    batch.tokens.push_back(i % 256);
    batch.targets.push_back((i + 1) % 256);
  }
  return batch;
}

// Of 20 steps on the same batch.
template <class Shape, class... Policies>
std::vector<double> losses() {
  using Layout = Config<Shape, Device<Cuda>, Precision<Bf16>, Policies...>;
  CudaThreadWorld world(Shape::shape.world());
  Trainer<Gpt, Layout> trainer{
      shape,
      world,
      {.batch = 4, .sequence = 64, .microbatches = 2, .learning_rate = {.peak = 3e-3}, .poison = true}};
  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) losses.push_back(trainer.step(counting_batch()).loss);
  return losses;
}

TEST_F(CudaStep, LearnsABatchByHeart) {
  const std::vector<double> found = losses<OneRank>();
  EXPECT_NEAR(found.front(), 5.55, 0.3);  // log 256, before anything is learned
  EXPECT_LT(found.back(), found.front() / 2);
}

TEST_F(CudaStep, Repeats) {
  EXPECT_EQ(losses<OneRank>(), losses<OneRank>());
}

// Gradients are summed in another order, and each loss of 16-bit layers is good to 3 decimal digits.
void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(actual[step], expected[step], 0.02 * expected.front()) << "step " << step;
  }
}

// Two ranks on one GPU, or on two.
TEST_F(CudaStep, OfTwoDataRanksIsThatOfOne) {
  expect_near(losses<Parallelism<1, 1, 2>>(), losses<OneRank>());
}

// Whose hops run on streams of their own, as do their transfers, beside weight gradients.
TEST_F(CudaStep, OfTwoContextRanksIsThatOfOne) {
  expect_near(losses<Parallelism<1, 1, 1, 2>, Attention<Ring, Zigzag>>(), losses<OneRank>());
}

// One runs weight gradients beside attention's backward pass, the other after it.
TEST_F(CudaStep, HasTheSameBitsWhetherBackwardIsWholeOrInParts) {
  EXPECT_EQ((losses<Parallelism<1, 2, 1>, Schedule<ZeroBubbleH1>>()), losses<OneRank>());
}

}  // namespace
}  // namespace trilith::test
