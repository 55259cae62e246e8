// A GPT on Device<Cuda>, its ranks on one to three GPUs: under each axis of a layout its steps are those of
// the host.
#include <gtest/gtest.h>

#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "test/train/emulated_steps.hpp"

namespace trilith::test {
namespace {

TEST(CudaGpt, OverTensorRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Cuda, Bf16, Parallelism<2, 1, 1>>(emulated_gpt, bfloat16_tolerance);
}

TEST(CudaGpt, OverDataAndPipelineRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Cuda, Bf16, Parallelism<1, 2, 2>>(emulated_gpt, bfloat16_tolerance);
}

TEST(CudaGpt, OverARingOfContextRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Cuda, Bf16, Parallelism<1, 1, 1, 2>, Attention<Ring, Zigzag>>(
      emulated_gpt, bfloat16_tolerance);
}

}  // namespace
}  // namespace trilith::test
