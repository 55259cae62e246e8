// A Llama on the emulated device, as emulated_gpt_test.cc has it.
#include <gtest/gtest.h>

#include <trilith/emulated.hpp>

#include "test/train/emulated_steps.hpp"

namespace trilith::test {
namespace {

TEST(EmulatedLlama, InFloat32TakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Emulated, F32>(emulated_llama, float32_tolerance);
}

TEST(EmulatedLlama, InBfloat16TakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Emulated, Bf16>(emulated_llama, bfloat16_tolerance);
}

TEST(EmulatedLlama, WithATiedHeadOverPipelineRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Emulated, Bf16, Parallelism<1, 2, 1>>(tied(emulated_llama),
                                                                           bfloat16_tolerance);
}

TEST(EmulatedLlama, OverTensorAndContextRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Emulated, Bf16, Parallelism<2, 1, 1, 2>, Attention<AllGatherKv>>(
      emulated_llama, bfloat16_tolerance);
}

TEST(EmulatedLlama, WithHeadsExchangedForRowsTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Llama, Emulated, Bf16, Parallelism<1, 1, 1, 2>, Attention<Ulysses>>(
      emulated_llama, bfloat16_tolerance);
}

}  // namespace
}  // namespace trilith::test
