// A GPT on the emulated device: its steps are those of the host, but for rounding, in each precision and
// under each axis of a layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
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

TEST(EmulatedGpt, WithHeadsThatKernelsDoNotTakeIsRefusedWhenItIsMade) {
  GptShape shape = emulated_gpt;
  shape.heads = 8;  // of 4
  ThreadWorld world(1);
  using Layout = Config<Device<Emulated>, Precision<Bf16>>;
  try {
    const Trainer<Gpt, Layout> trainer{shape, world, emulated_options()};
    FAIL() << "it was made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("attention of 8 heads with 8 key/value heads of dimension 4"));
  }
}

}  // namespace
}  // namespace trilith::test
