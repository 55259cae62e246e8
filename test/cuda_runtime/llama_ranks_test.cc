// A Llama on Device<Cuda>, as gpt_ranks_test.cc has it.
#include <gtest/gtest.h>

#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "test/train/emulated_steps.hpp"

namespace trilith::test {
namespace {

TEST(CudaLlama, WithATiedHeadOverPipelineRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Cuda, Bf16, Parallelism<1, 2, 1>>(tied(emulated_llama),
                                                                       bfloat16_tolerance);
}

TEST(CudaLlama, OverTensorAndContextRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Cuda, F32, Parallelism<2, 1, 1, 2>, Attention<Ring>>(emulated_llama,
                                                                                          float32_tolerance);
}

}  // namespace
}  // namespace trilith::test
