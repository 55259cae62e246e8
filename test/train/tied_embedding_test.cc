// The table that is both embedding and output head: on the first and the last stage there is a copy each, and
// the gradient of both is the mean over data ranks of what the embedding and the head contribute.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"
#include "test/support/compare.hpp"
#include "test/train/any_trainer.hpp"

namespace trilith::test {
namespace {

constexpr GptShape shape{.layers = 4, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37};

// The copies of the table on the ranks of this tensor rank, every data rank's first and last stage.
std::vector<const Parameter<float>*> copies(const AnyTrainer& trainer, const Layout& layout, int tensor) {
  std::vector<const Parameter<float>*> found;
  for (int rank = 0; rank < trainer.ranks(); ++rank) {
    if (layout.shape().coordinate_of(rank).tensor != tensor) continue;
    for (const Parameter<float>& p : trainer.parameters(rank)) {
      if (p.spec.name == "wte.weight") found.push_back(&p);
    }
  }
  return found;
}

bool same_bits(const Vector<float>& a, const Vector<float>& b) {
  return std::equal(a.extents().begin(), a.extents().end(), b.extents().begin()) &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
}

class TiedEmbedding : public testing::TestWithParam<Layout> {};

TEST_P(TiedEmbedding, IsOnTheFirstAndTheLastStageOnly) {
  const Layout layout = GetParam();
  const Batch batch = reference::random_batch(shape, 8, 11, 1);
  const auto trainer = make_trainer(layout, shape, options_for(batch, 2));
  const int stages = layout.pipeline == 1 ? 1 : 2;
  for (int tensor = 0; tensor < layout.tensor; ++tensor) {
    const auto tables = copies(*trainer, layout, tensor);
    ASSERT_EQ(std::ssize(tables), stages * layout.data);
    const auto owners = std::count_if(tables.begin(), tables.end(), [](auto* p) { return !p->spec.is_copy; });
    EXPECT_EQ(owners, layout.data) << "one of each pipeline is counted in norms and saved";
  }
}

// Data ranks have different tokens, so a reduction over them before both contributions are there would show
// in the value; float64 gives it.
TEST_P(TiedEmbedding, GradientIsTheMeanOfFirstPlusLast) {
  const Layout layout = GetParam();
  const Batch batch = reference::random_batch(shape, 8, 11, 2);
  const reference::Weights weights = reference::random_weights(shape, 3);
  const auto trainer = make_trainer(layout, shape, options_for(batch, 2));
  trainer->load(weights);
  trainer->gradients(batch);
  for (int tensor = 0; tensor < layout.tensor; ++tensor) {
    const auto tables = copies(*trainer, layout, tensor);
    for (const Parameter<float>* p : tables) EXPECT_TRUE(same_bits(p->gradient, tables[0]->gradient));
  }
  const auto expected = reference::loss_and_gradients(shape, weights, batch).gradients;
  expect_close(Tensors<float>{{"wte.weight", trainer->gradient_tensors().at("wte.weight")}},
               Tensors<double>{{"wte.weight", expected.at("wte.weight")}}, 3e-5);
}

TEST_P(TiedEmbedding, CopiesDoNotDriftApart) {
  const Layout layout = GetParam();
  Batch batch = reference::random_batch(shape, 8, 11, 4);
  TrainerOptions options = options_for(batch, 2);
  options.optimizer.weight_decay = 0.1f;
  const auto trainer = make_trainer(layout, shape, options);
  const auto initial = trainer->weights().at("wte.weight");
  for (int step = 0; step < 12; ++step) {
    trainer->step(batch);
    for (int tensor = 0; tensor < layout.tensor; ++tensor) {
      const auto tables = copies(*trainer, layout, tensor);
      for (const Parameter<float>* p : tables)
        ASSERT_TRUE(same_bits(p->value, tables[0]->value)) << "step " << step;
    }
    batch = reference::random_batch(shape, 8, 11, 5 + step);
  }
  EXPECT_NE(trainer->weights().at("wte.weight"), initial);
}

INSTANTIATE_TEST_SUITE_P(Layouts, TiedEmbedding,
                         testing::Values(Layout{1, 1, 1}, Layout{1, 1, 2}, Layout{1, 2, 1}, Layout{1, 2, 2},
                                         Layout{2, 2, 2}, Layout{2, 4, 1}, Layout{1, 4, 4},
                                         Layout{4, 2, 2, Policy::gpipe}),
                         name_of_layout);

}  // namespace
}  // namespace trilith::test
