// A GPT on Device<Cuda>: its steps are those of the host, but for rounding, in each precision.
#include <gtest/gtest.h>

#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "test/cuda_runtime/machine/machine.hpp"
#include "test/train/emulated_steps.hpp"

namespace trilith::test {
namespace {

TEST(CudaGpt, InFloat32TakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Cuda, F32>(emulated_gpt, float32_tolerance);
}

TEST(CudaGpt, InBfloat16TakesTheStepOfTheHost) {
  expect_the_step_of_the_host<Gpt, Cuda, Bf16>(emulated_gpt, bfloat16_tolerance);
}

TEST(CudaGpt, WithoutEpiloguesOfCublasTakesTheStepOfTheHost) {
  imitation::plug_in({.cublas_has_epilogues = false});
  expect_the_step_of_the_host<Gpt, Cuda, Bf16>(emulated_gpt, bfloat16_tolerance);
}

TEST(CudaGpt, InFloat16TakesTheStepOfTheHost) {
  TrainerOptions options = emulated_options();
  options.loss_scaling.initial = 1024;  // one that fits
  LoadedTrainer<Gpt, Config<Device<Cuda>, Precision<F16>>> trainer(emulated_gpt, options);
  expect_step(step_of(trainer), host_step<Gpt>(emulated_gpt), float16_tolerance);
}

}  // namespace
}  // namespace trilith::test
