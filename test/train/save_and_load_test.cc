// Weights saved under one layout load under any other, bit for bit; a save that fails leaves the old file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/nn/gpt_shape.hpp>
#include <trilith/train/gpt2_checkpoint.hpp>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/support/files.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

using testing::HasSubstr;

// A vocabulary that is padded to 38 and 40: padding is neither saved nor loaded.
constexpr GptShape shape{.layers = 4, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37};

Batch batch(int step) {
  return reference::random_batch(shape, 8, 11, static_cast<std::uint64_t>(step));
}

std::unique_ptr<AnyTrainer> trainer_of(const Layout& layout) {
  return make_trainer(layout, shape, options_for(batch(0), 2));
}

TEST(SavedWeights, LoadUnderEveryOtherLayout) {
  const TempFolder folder;
  for (const Layout& saved : {Layout{1, 1, 1}, Layout{2, 2, 2}, Layout{4, 1, 2}, Layout{1, 4, 1}}) {
    const auto trainer = trainer_of(saved);
    trainer->step(batch(1));
    const auto path = folder / "model.safetensors";
    trainer->save(path);
    EXPECT_EQ(folder.names().size(), 1u) << "nothing else is left behind";
    const Gpt2Checkpoint checkpoint(path);
    EXPECT_EQ(checkpoint.shape(), shape);
    for (const Layout& loaded :
         {Layout{1, 1, 1}, Layout{4, 1, 2}, Layout{2, 2, 2}, Layout{4, 4, 1}, Layout{1, 2, 4}}) {
      SCOPED_TRACE(testing::Message() << saved << " to " << loaded);
      const auto other = trainer_of(loaded);
      other->load(checkpoint);
      expect_same_bits(other->weights(), trainer->weights());
    }
  }
}

// The file is the same, whatever layout wrote it.
TEST(SavedWeights, AreTheSameBytesFromEveryLayout) {
  const TempFolder folder;
  std::string expected;
  for (const Layout& layout : all_layouts()) {
    const auto trainer = trainer_of(layout);  // initial weights: the same in every layout
    trainer->save(folder / "model.safetensors");
    const std::string bytes = content_of(folder / "model.safetensors");
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected) << layout;
  }
}

TEST(FailedSave, LeavesTheOldFileAndTheTrainer) {
  const TempFolder folder;
  const auto trainer = trainer_of({2, 2, 2});
  trainer->save(folder / "model.safetensors");
  const std::string old = content_of(folder / "model.safetensors");
  trainer->step(batch(1));

  EXPECT_THAT(error_of([&] { trainer->save(folder / "missing" / "model.safetensors"); }),
              HasSubstr("missing"));
  EXPECT_FALSE(std::filesystem::exists(folder / "missing"));

  std::filesystem::permissions(folder / "model.safetensors", std::filesystem::perms::owner_read);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  {
    const WithoutPrivileges user;
    EXPECT_THAT(error_of([&] { trainer->save(folder / "model.safetensors"); }), HasSubstr("cannot save "));
  }
  EXPECT_TRUE(content_of(folder / "model.safetensors") == old);
  EXPECT_EQ(folder.names().size(), 1u);

  // The trainer goes on, and can be saved elsewhere.
  EXPECT_EQ(trainer->step(batch(2)).step, 2);
  trainer->save(folder / "other.safetensors");
  const auto other = trainer_of({1, 1, 1});
  other->load(Gpt2Checkpoint(folder / "other.safetensors"));
  expect_same_bits(other->weights(), trainer->weights());
}

}  // namespace
}  // namespace trilith::test
