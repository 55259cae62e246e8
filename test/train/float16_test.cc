// Precision<F16> on the emulated device: the loss is scaled, gradients and weights are not, and a step whose
// gradients overflow is skipped.
#include <gtest/gtest.h>

#include <trilith/emulated.hpp>

#include "test/train/emulated_steps.hpp"

namespace trilith::test {
namespace {

using Layout = Config<Device<Emulated>, Precision<F16>, Parallelism<1, 2, 1>>;

TEST(Float16, TakesTheStepOfTheHostAtEveryScaleThatFits) {
  for (const double scale : {1.0, 1024.0}) {
    SCOPED_TRACE(scale);
    TrainerOptions options = emulated_options();
    options.loss_scaling.initial = scale;
    LoadedTrainer<Gpt, Layout> trainer(emulated_gpt, options);
    const Step step = step_of(trainer);
    EXPECT_EQ(step.report.loss_scale, scale);
    expect_step(step, host_step<Gpt>(emulated_gpt), float16_tolerance);
    EXPECT_TRUE(trainer.computes_with_its_weights());
  }
}

TEST(Float16, SkipsAStepThatOverflowsAndHalvesTheScale) {
  TrainerOptions options = emulated_options();
  options.loss_scaling = {.initial = 0x1p25, .hysteresis = 1};
  LoadedTrainer<Gpt, Layout> trainer(emulated_gpt, options);
  const WholeTensors before = trainer.weights();
  for (const double scale : {0x1p25, 0x1p24}) {
    const StepReport report = trainer->step(emulated_batch());
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.loss_scale, scale);
    EXPECT_NEAR(report.loss, host_step<Gpt>(emulated_gpt).report.loss, float16_tolerance.loss * report.loss);
    EXPECT_EQ(trainer->steps_done(), 0);
  }
  expect_same_bits(trainer.weights(), before);
  EXPECT_TRUE(trainer.computes_with_its_weights());

  // It goes on halving until the gradients fit, and then takes its first step: a logit's gradient is at most
  // scale / valid tokens, a float16 65504.
  int skipped = 0;
  while (trainer->step(emulated_batch()).skipped) ASSERT_LT(++skipped, 5);
  EXPECT_EQ(trainer->steps_done(), 1);
}

}  // namespace
}  // namespace trilith::test
