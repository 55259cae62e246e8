// A GPT-2 saved by Hugging Face's transformers loads into every layout and trains on as it does there: logits,
// gradients and weights equal what PyTorch computed in float64.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/gpt2_fixture.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

// Float32 against float64, as law 1 states it.
constexpr double tolerance = 3e-5;

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
      const auto logits = fixture_.logits.begin() +
                          (sequence * batch.length + count - 1) * fixture_.shape.vocabulary;
      expect_close(
          Tensors<float>{{"logits", trainer->next_token_logits({first, first + count})}},
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
  for (const int m : microbatches()) {
    SCOPED_TRACE(std::to_string(m) + " microbatches");
    const auto trainer = this->trainer(m);
    for (std::size_t step = 0; step < fixture_.losses.size(); ++step) {
      const StepReport report = trainer->step(fixture_.batch);
      EXPECT_NEAR(report.loss, fixture_.losses[step], tolerance * fixture_.losses[step]);
      EXPECT_NEAR(report.gradient_norm, fixture_.norms[step], tolerance * fixture_.norms[step]);
    }
    Tensors<double> actual;
    Tensors<double> expected;
    const Index hidden = fixture_.shape.hidden;
    for (const auto& [name, weights] : trainer->weights()) {
      const bool has_keys = name.ends_with("c_attn.bias");
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double before = fixture_.weights.at(name)[i];
        // The loss does not depend on the keys' bias: AdamW moves it by the sign of its gradient's rounding.
        const bool key = has_keys && static_cast<Index>(i) / hidden == 1;
        if (key) {
          const double most = fixture_.adamw.learning_rate * static_cast<double>(fixture_.losses.size());
          EXPECT_LE(std::abs(weights[i] - before), 1.01 * most) << name << "[" << i << "]";
        }
        actual[name].push_back(key ? 0 : weights[i] - before);
        expected[name].push_back(key ? 0 : fixture_.trained.at(name)[i] - before);
      }
    }
    expect_close(actual, expected, tolerance_of_changes);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Gpt2Trainer,
                         testing::Values(Layout{1, 1, 1}, Layout{2, 1, 1}, Layout{4, 1, 1}, Layout{1, 2, 1},
                                         Layout{1, 1, 4}, Layout{2, 2, 1}, Layout{2, 2, 2},
                                         Layout{4, 2, 4, Policy::gpipe}),
                         [](const auto& info) {
                           return "TP" + std::to_string(info.param.tensor) + "PP" +
                                  std::to_string(info.param.pipeline) + "DP" + std::to_string(info.param.data);
                         });

}  // namespace
}  // namespace trilith::test
