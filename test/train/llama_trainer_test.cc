// A Llama saved by Hugging Face's transformers loads into every layout and computes what it does there:
// logits and gradients equal PyTorch's in float64. What a layout saves loads under every other.

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/train/llama_checkpoint.hpp>

#include "test/reference/llama_fixture.hpp"
#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/support/files.hpp"
#include "test/train/any_trainer.hpp"
#include "test/train/llama_models.hpp"

namespace trilith::test {
namespace {

// Float32 against float64, as law 1 states it.
constexpr double tolerance = 3e-5;

class LlamaTrainer : public testing::TestWithParam<Layout> {
 protected:
  std::unique_ptr<AnyTrainer> trainer() const {
    const LlamaCheckpoint checkpoint(reference::llama_fixture_folder() / "model.safetensors");
    auto trainer = make_trainer(GetParam(), checkpoint.shape(), options_for(fixture_.batch, 1));
    trainer->load(checkpoint);
    return trainer;
  }

  const reference::LlamaFixture fixture_ = reference::llama_fixture();
};

TEST_P(LlamaTrainer, LogitsEqualThoseOfTransformers) {
  const auto trainer = this->trainer();
  const Batch& batch = fixture_.batch;
  const Index vocabulary = fixture_.config.vocabulary;
  for (Index sequence = 0; sequence < batch.sequences; ++sequence) {
    for (Index count = 1; count <= batch.length; ++count) {
      const auto first = batch.tokens.begin() + sequence * batch.length;
      const auto logits = fixture_.logits.begin() + (sequence * batch.length + count - 1) * vocabulary;
      expect_close(Tensors<float>{{"logits", trainer->next_token_logits({first, first + count})}},
                   Tensors<double>{{"logits", {logits, logits + vocabulary}}}, tolerance);
    }
  }
}

TEST_P(LlamaTrainer, LossAndGradientsEqualThoseOfPyTorch) {
  const auto trainer = this->trainer();
  EXPECT_NEAR(trainer->gradients(fixture_.batch).loss, fixture_.loss, tolerance * fixture_.loss);
  expect_close(trainer->gradient_tensors(), fixture_.gradients, tolerance);
}

// Two layers, two key/value heads, three sequences.
INSTANTIATE_TEST_SUITE_P(Layouts, LlamaTrainer,
                         testing::Values(Layout{1, 1, 1}, Layout{2, 1, 1}, Layout{1, 2, 1}, Layout{2, 2, 1}),
                         name_of_layout);

// A vocabulary that is padded to 38 and 40: padding is neither saved nor loaded. The file is the same,
// whatever layout wrote it.
TEST(SavedLlama, LoadsUnderEveryOtherLayout) {
  const TempFolder folder;
  for (const LlamaShape& shape : {odd_llama, tied(odd_llama)}) {
    const Batch batch = reference::random_batch(shape, 8, 11, 3);
    const auto trainer_of = [&](const Layout& layout) {
      return make_trainer(layout, shape, options_for(batch, 2));
    };
    std::string expected;
    for (const Layout& saved : {Layout{1, 1, 1}, Layout{2, 2, 2}, Layout{4, 1, 2}, Layout{1, 4, 1}}) {
      const auto trainer = trainer_of(saved);
      const auto path = folder / "model.safetensors";
      trainer->save(path);
      const std::string bytes = content_of(path);
      if (expected.empty()) expected = bytes;
      EXPECT_TRUE(bytes == expected) << saved;

      trainer->step(batch);
      trainer->save(path);
      const LlamaCheckpoint checkpoint(path);
      EXPECT_EQ(checkpoint.shape(), shape);
      for (const Layout& loaded : {Layout{1, 1, 1}, Layout{4, 1, 2}, Layout{2, 2, 2}, Layout{4, 4, 1}}) {
        SCOPED_TRACE(testing::Message() << saved << " to " << loaded);
        const auto other = trainer_of(loaded);
        other->load(checkpoint);
        expect_same_bits(other->weights(), trainer->weights());
      }
    }
  }
}

}  // namespace
}  // namespace trilith::test
