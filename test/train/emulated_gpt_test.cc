// A GPT on the emulated device: its steps are those of the host, but for rounding, in each precision and
// under each axis of a layout.
#include <gtest/gtest.h>

#include <trilith/emulated.hpp>

#include "test/train/emulated_steps.hpp"

namespace trilith::test {
namespace {

TEST(EmulatedGpt, InFloat32TakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Emulated, F32>(emulated_gpt, float32_tolerance);
}

TEST(EmulatedGpt, InBfloat16TakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Emulated, Bf16>(emulated_gpt, bfloat16_tolerance);
}

TEST(EmulatedGpt, OverDataAndPipelineRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Emulated, Bf16, Parallelism<1, 2, 2>>(emulated_gpt, bfloat16_tolerance);
}

TEST(EmulatedGpt, OverTensorAndPipelineRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Emulated, Bf16, Parallelism<2, 2, 1>>(emulated_gpt, bfloat16_tolerance);
}

TEST(EmulatedGpt, OverARingOfContextRanksTakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Emulated, Bf16, Parallelism<1, 1, 1, 2>, Attention<Ring, Zigzag>>(
      emulated_gpt, bfloat16_tolerance);
}

}  // namespace
}  // namespace trilith::test
