// A GPT-2 saved by Hugging Face's transformers loads into every layout and trains on as it does there:
// logits, gradients and weights equal what PyTorch computed in float64.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/train/gpt2_checkpoint.hpp>

#include "test/reference/gpt2_fixture.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

// Float32 against float64, as law 1 states it.
constexpr double tolerance = 3e-5;

// Which elements AdamW moves by the sign that rounding gives their gradient. (Where nothing is summed, as at
// positions beyond the batch's, the gradient is zero without rounding.)
std::vector<bool> rounding_alone(const reference::Values& gradient) {
  const double size = std::sqrt(square(gradient) / static_cast<double>(gradient.size()));
  std::vector<bool> alone;
  for (const double g : gradient) alone.push_back(g != 0 && std::abs(g) < 1e-6 * size);
  return alone;
}

class Gpt2Trainer : public testing::TestWithParam<Layout> {
 protected:
  std::unique_ptr<AnyTrainer> trainer(int microbatches) const {
    TrainerOptions options = options_for(fixture_.batch, microbatches);
    const reference::AdamW& adamw = fixture_.adamw;
    options.optimizer = {.beta1 = static_cast<float>(adamw.beta1),
                         .beta2 = static_cast<float>(adamw.beta2),
                         .epsilon = static_cast<float>(adamw.epsilon),
                         .weight_decay = static_cast<float>(adamw.weight_decay)};
    options.learning_rate = {.peak = adamw.learning_rate};
    options.clip = adamw.max_norm;
    const Gpt2Checkpoint checkpoint(reference::gpt2_fixture_folder() / "model.safetensors");
    auto trainer = make_trainer(GetParam(), checkpoint.shape(), options);
    trainer->load(checkpoint);
    return trainer;
  }

  // What the batch leaves for each data rank.
  std::vector<int> microbatches() const {
    std::vector<int> counts;
    for (int m = 1; m <= fixture_.batch.sequences / GetParam().data; m *= 2) counts.push_back(m);
    return counts;
  }

  const reference::Gpt2Fixture fixture_ = reference::gpt2_fixture();
};

TEST_P(Gpt2Trainer, LogitsEqualThoseOfTransformers) {
  const auto trainer = this->trainer(1);
  const Batch& batch = fixture_.batch;
  for (const Index sequence : {0, 3}) {
    for (Index count = 1; count <= batch.length; ++count) {
      const auto first = batch.tokens.begin() + sequence * batch.length;
      const auto logits =
          fixture_.logits.begin() + (sequence * batch.length + count - 1) * fixture_.shape.vocabulary;
      expect_close(Tensors<float>{{"logits", trainer->next_token_logits({first, first + count})}},
                   Tensors<double>{{"logits", {logits, logits + fixture_.shape.vocabulary}}}, tolerance);
    }
  }
}

TEST_P(Gpt2Trainer, LossAndGradientsEqualThoseOfPyTorch) {
  for (const int m : microbatches()) {
    SCOPED_TRACE(std::to_string(m) + " microbatches");
    const auto trainer = this->trainer(m);
    EXPECT_NEAR(trainer->gradients(fixture_.batch).loss, fixture_.loss, tolerance * fixture_.loss);
    expect_close(trainer->gradient_tensors(), fixture_.gradients, tolerance);
  }
}

// The change of each weight, so that the weights themselves do not hide it. AdamW divides by the size of the
// gradient, element by element, and so magnifies the rounding of small ones; a step too many or too few is a
// change of 1/3, a missing decay one of 1e-3.
TEST_P(Gpt2Trainer, WeightsChangeAsUnderPyTorchsAdamW) {
  constexpr double tolerance_of_changes = 2e-4;
  const Index steps = std::ssize(fixture_.losses);
  for (const int m : microbatches()) {
    SCOPED_TRACE(std::to_string(m) + " microbatches");
    const auto trainer = this->trainer(m);
    for (Index step = 0; step < steps; ++step) {
      const StepReport report = trainer->step(fixture_.batch);
      EXPECT_NEAR(report.loss, fixture_.losses[step], tolerance * fixture_.losses[step]);
      EXPECT_NEAR(report.gradient_norm, fixture_.norms[step], tolerance * fixture_.norms[step]);
    }
    Tensors<double> actual;
    Tensors<double> expected;
    for (const auto& [name, weights] : trainer->weights()) {
      const std::vector<bool> left_out = rounding_alone(fixture_.gradients.at(name));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (left_out[i]) continue;
        const double before = fixture_.weights.at(name)[i];
        actual[name].push_back(weights[i] - before);
        expected[name].push_back(fixture_.trained.at(name)[i] - before);
      }
    }
    expect_close(actual, expected, tolerance_of_changes);
  }
}

// What is left out above: the keys' biases, on which the loss does not depend, and one weight by chance.
TEST(Gpt2Fixture, HardlyAnyGradientIsRoundingAlone) {
  const reference::Gpt2Fixture fixture = reference::gpt2_fixture();
  Index count = 0;
  for (const auto& [name, gradient] : fixture.gradients) {
    const std::vector<bool> alone = rounding_alone(gradient);
    count += std::count(alone.begin(), alone.end(), true);
  }
  EXPECT_EQ(count, fixture.shape.layers * fixture.shape.hidden + 1);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Gpt2Trainer,
                         testing::Values(Layout{1, 1, 1}, Layout{2, 1, 1}, Layout{4, 1, 1}, Layout{1, 2, 1},
                                         Layout{1, 1, 4}, Layout{2, 2, 1}, Layout{2, 2, 2},
                                         Layout{4, 2, 4, Policy::gpipe}),
                         name_of_layout);

}  // namespace
}  // namespace trilith::test
