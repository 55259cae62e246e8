// Layers to stages by cost: against all splits there are, where there are few, and what GPT-2's head weighs.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/comm/thread_communicator.hpp>
#include <trilith/core/random.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/plan/stage_split.hpp>

namespace trilith {
namespace {

using Split = std::vector<int>;

// Of each stage.
std::vector<double> costs(const ModelCost& cost, const Split& split) {
  std::vector<double> stages;
  auto layer = cost.layers.begin();
  for (const int layers : split) {
    stages.push_back(std::accumulate(layer, layer + layers, 0.0));
    layer += layers;
  }
  stages.front() += cost.before;
  stages.back() += cost.after;
  return stages;
}

double costliest(const ModelCost& cost, const Split& split) {
  const std::vector<double> stages = costs(cost, split);
  return *std::max_element(stages.begin(), stages.end());
}

// All ways to give `layers` layers to `stages` stages, each at least one.
std::vector<Split> all_splits(int layers, int stages) {
  if (stages == 1) return {{layers}};
  std::vector<Split> splits;
  for (int first = 1; first <= layers - (stages - 1); ++first) {
    for (Split rest : all_splits(layers - first, stages - 1)) {
      rest.insert(rest.begin(), first);
      splits.push_back(std::move(rest));
    }
  }
  return splits;
}

ModelCost equal_layers(int layers, double before, double after) {
  return {.layers = std::vector<double>(layers, 1.0), .before = before, .after = after};
}

ModelCost gpt2_124m() {
  return Gpt<Layers<1, Host, ThreadCommunicator>>::cost(GptShape{}, GptShape{}.positions);
}

std::string message_of(void (*wrong)()) {
  try {
    wrong();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GptCost, HeadOfGpt2124MWeighsAsMuchAsAlmostFiveLayers) {
  const ModelCost cost = gpt2_124m();
  ASSERT_EQ(cost.layers.size(), 12u);
  EXPECT_NEAR(cost.after / cost.layers[0], 4.9, 0.05);
  EXPECT_EQ(cost.before, 0);
}

// 8 layers, and 4 with the head: 8.9 at most. Equal counts would take 10.9, and 9 and 3 would take 9.
TEST(SplitLayers, GivesTheStageWithTheHeadFewerLayers) {
  const ModelCost cost = gpt2_124m();
  EXPECT_EQ(split_layers(cost, 1), (Split{12}));
  EXPECT_EQ(split_layers(cost, 2), (Split{8, 4}));
  EXPECT_NEAR(costliest(cost, {8, 4}) / cost.layers[0], 8.9, 0.05);
  EXPECT_NEAR(costliest(cost, {6, 6}) / cost.layers[0], 10.9, 0.05);
}

TEST(SplitLayers, GivesTheStageWithTheEmbeddingFewerLayersWhereItCosts) {
  EXPECT_EQ(split_layers(equal_layers(6, 4, 0), 2), (Split{1, 5}));
  EXPECT_EQ(split_layers(equal_layers(6, 3, 3), 3), (Split{1, 4, 1}));
}

TEST(SplitLayers, HasTheCheapestCostliestStageOfAllSplits) {
  const Philox random(2, 7);
  std::uint64_t next = 0;
  const auto draw = [&](float most) { return double{most * random.uniform(next++)}; };
  for (int layers = 1; layers <= 10; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const std::vector<Split> splits = all_splits(layers, stages);
      for (int round = 0; round < 10; ++round) {
        ModelCost cost{.layers = {}, .before = draw(3), .after = draw(6)};
        for (int i = 0; i < layers; ++i) cost.layers.push_back(0.1 + draw(1));
        double best = std::numeric_limits<double>::infinity();
        for (const Split& split : splits) best = std::min(best, costliest(cost, split));
        const Split chosen = split_layers(cost, stages);
        // The two add the same numbers in another order.
        EXPECT_NEAR(costliest(cost, chosen), best, 1e-12) << layers << " layers, " << stages << " stages";
      }
    }
  }
}

TEST(SplitLayers, GivesEachLayerToExactlyOneStage) {
  for (int layers = 1; layers <= 40; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const Split split = split_layers(equal_layers(layers, 0, 4.9), stages);
      EXPECT_NO_THROW(check_split(split, layers, stages));
    }
  }
  // Layers that do not divide by the stages.
  EXPECT_EQ(split_layers(equal_layers(30, 0, 0), 4), (Split{8, 8, 7, 7}));
}

// Of splits whose costliest stages cost the same: the longest first stage, and so on with what is left.
TEST(SplitLayers, PrefersLongEarlyStages) {
  EXPECT_EQ(split_layers(equal_layers(5, 0, 0), 2), (Split{3, 2}));
  EXPECT_EQ(split_layers(equal_layers(7, 0, 0), 3), (Split{3, 2, 2}));
  EXPECT_EQ(split_layers(equal_layers(8, 0, 0), 3), (Split{3, 3, 2}));
  EXPECT_EQ(split_layers(equal_layers(6, 2, 2), 3), (Split{2, 3, 1}));
}

TEST(SplitLayers, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(message_of([] { split_layers(equal_layers(3, 0, 0), 4); }),
            "3 layers cannot be split over 4 stages; every stage needs at least one layer");
  EXPECT_EQ(message_of([] { split_layers(equal_layers(3, 0, 0), 0); }),
            "3 layers cannot be split over 0 stages; every stage needs at least one layer");
}

TEST(CheckSplit, AcceptsWhatGivesEachLayerOnce) {
  EXPECT_NO_THROW(check_split({12}, 12, 1));
  EXPECT_NO_THROW(check_split({1, 10, 1}, 12, 3));
}

TEST(CheckSplit, RefusesAnythingElse) {
  EXPECT_EQ(
      message_of([] {
        check_split({6, 5}, 12, 2);
      }),
      "the given split has 2 stages and 11 layers; the model has 12 layers on 2 stages; give every stage at "
      "least one layer and each layer once");
  EXPECT_THROW(check_split({6, 7}, 12, 2), Error);
  EXPECT_THROW(check_split({4, 4, 4}, 12, 2), Error);
  EXPECT_THROW(check_split({12}, 12, 2), Error);
  EXPECT_THROW(check_split({12, 0}, 12, 2), Error);
  EXPECT_THROW(check_split({13, -1}, 12, 2), Error);
  EXPECT_THROW(check_split({}, 12, 2), Error);
}

TEST(StagesOf, FollowOneAnother) {
  const std::vector<StageRange> stages = stages_of({5, 4, 3});
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0], (StageRange{.first_layer = 0, .layers = 5, .first = true, .last = false}));
  EXPECT_EQ(stages[1], (StageRange{.first_layer = 5, .layers = 4, .first = false, .last = false}));
  EXPECT_EQ(stages[2], (StageRange{.first_layer = 9, .layers = 3, .first = false, .last = true}));
}

TEST(StagesOf, OneStageIsFirstAndLast) {
  EXPECT_EQ(stages_of({12}).front(),
            (StageRange{.first_layer = 0, .layers = 12, .first = true, .last = true}));
}

}  // namespace
}  // namespace trilith
