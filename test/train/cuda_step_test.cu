// Steps of training on GPUs, in 16-bit precision.
#include <vector>

#include <gtest/gtest.h>

#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using CudaStep = GpuTest;

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
template <int Data>
std::vector<double> losses() {
  using Layout = Config<Parallelism<1, 1, Data>, Device<Cuda>, Precision<Bf16>>;
  CudaThreadWorld world(Data);
  Trainer<Gpt, Layout> trainer{
      shape,
      world,
      {.batch = 4, .sequence = 64, .microbatches = 2, .learning_rate = {.peak = 3e-3}, .poison = true}};
  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) losses.push_back(trainer.step(counting_batch()).loss);
  return losses;
}

TEST_F(CudaStep, LearnsABatchByHeart) {
  const std::vector<double> found = losses<1>();
  EXPECT_NEAR(found.front(), 5.55, 0.3);  // log 256, before anything is learned
  EXPECT_LT(found.back(), found.front() / 2);
}

TEST_F(CudaStep, Repeats) {
  EXPECT_EQ(losses<1>(), losses<1>());
}

// Two ranks on one GPU, or on two. Gradients are summed in another order, and each loss of 16-bit layers is
// good to 3 decimal digits.
TEST_F(CudaStep, OfTwoDataRanksIsThatOfOne) {
  const std::vector<double> one = losses<1>();
  const std::vector<double> two = losses<2>();
  for (std::size_t step = 0; step < one.size(); ++step) EXPECT_NEAR(one[step], two[step], 0.02 * one.front());
}

}  // namespace
}  // namespace trilith::test
