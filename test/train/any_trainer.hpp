// A trainer whose model and layout are chosen when a test runs: laws are swept over layouts by plain loops,
// and the layouts are compiled once for all tests, in any_trainer_tp*.cc and llama_trainer_tp*.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/comm/ledger.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/llama_shape.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/parallel/stage_range.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/model_checkpoint.hpp>
#include <trilith/train/trainer_options.hpp>

#include "test/reference/gpt.hpp"
#include "test/support/gather.hpp"

namespace trilith::test {

enum class Policy { one_f_one_b, gpipe };

struct Layout {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  Policy schedule = Policy::one_f_one_b;

  ParallelShape shape() const { return {.tensor = tensor, .pipeline = pipeline, .data = data}; }

  friend std::ostream& operator<<(std::ostream& out, const Layout& layout) {
    return out << "TP=" << layout.tensor << " PP=" << layout.pipeline << " DP=" << layout.data
               << (layout.schedule == Policy::gpipe ? " GPipe" : " OneFOneB");
  }
};

// TP, PP and DP of 1, 2 and 4 each.
inline std::vector<Layout> all_layouts() {
  std::vector<Layout> layouts;
  for (const int tensor : {1, 2, 4}) {
    for (const int pipeline : {1, 2, 4}) {
      for (const int data : {1, 2, 4}) layouts.push_back({tensor, pipeline, data});
    }
  }
  return layouts;
}

// "TP2PP1DP4": a layout in the name of a test.
inline std::string name_of_layout(const testing::TestParamInfo<Layout>& info) {
  return "TP" + std::to_string(info.param.tensor) + "PP" + std::to_string(info.param.pipeline) + "DP" +
         std::to_string(info.param.data);
}

// What Trainer::load reads from, of any kind.
struct AnySource {
  struct Tensor {
    std::function<void(Index first, Index count, float* to)> read;
  };
  std::function<Tensor(const std::string& name)> tensor;
};

// The members of Trainer, and what tests look at. It has a world of its own.
class AnyTrainer {
 public:
  virtual ~AnyTrainer() = default;

  virtual StepReport step(const Batch& batch) = 0;
  virtual StepReport gradients(const Batch& batch) = 0;
  virtual double evaluate(const std::vector<Batch>& batches) = 0;
  virtual Index evaluation_batch() const = 0;
  virtual std::vector<float> next_token_logits(const std::vector<std::int32_t>& tokens) = 0;
  virtual void load_any(const AnySource& source) = 0;
  virtual void save(const std::filesystem::path& path) = 0;
  virtual std::int64_t steps_done() const = 0;

  virtual std::vector<NamedShape> tensors() const = 0;  // of the whole model
  virtual const std::vector<StageRange>& stages() const = 0;
  virtual int ranks() const = 0;
  virtual const Parameters<Host>& parameters(int rank) const = 0;
  virtual Ledger& ledger(int rank) = 0;

  void load(const reference::Weights& weights) {
    load_any({[&](const std::string& name) {
      return AnySource::Tensor{[&values = weights.at(name)](Index first, Index count, float* to) {
        std::copy_n(values.begin() + first, count, to);
      }};
    }});
  }

  void load(const ModelCheckpoint& checkpoint) {
    load_any({[&](const std::string& name) {
      return AnySource::Tensor{[&tensor = checkpoint.tensor(name)](Index first, Index count, float* to) {
        tensor.read(first, count, to);
      }};
    }});
  }

  // Whole tensors, checked as gather.hpp says.
  WholeTensors weights() const { return whole(&Parameter<float>::value); }
  WholeTensors gradient_tensors() const { return whole(&Parameter<float>::gradient); }

 private:
  WholeTensors whole(Vector<float> Parameter<float>::*part) const {
    std::vector<const Parameters<Host>*> all;
    for (int rank = 0; rank < ranks(); ++rank) all.push_back(&parameters(rank));
    return gather(tensors(), all, part);
  }
};

// For TP = 1, 2 and 4. `ranks`: of the world, where it is not the layout's.
template <int TP>
std::unique_ptr<AnyTrainer> make_trainer_of(const Layout& layout, const GptShape& shape,
                                            const TrainerOptions& options, int ranks);
template <int TP>
std::unique_ptr<AnyTrainer> make_trainer_of(const Layout& layout, const LlamaShape& shape,
                                            const TrainerOptions& options, int ranks);

template <class Shape>
std::unique_ptr<AnyTrainer> make_trainer(const Layout& layout, const Shape& shape,
                                         const TrainerOptions& options, std::optional<int> ranks = {}) {
  const int world = ranks.value_or(layout.shape().world());
  switch (layout.tensor) {
    case 1: return make_trainer_of<1>(layout, shape, options, world);
    case 2: return make_trainer_of<2>(layout, shape, options, world);
    case 4: return make_trainer_of<4>(layout, shape, options, world);
  }
  throw Error("tests have no trainer of TP=" + std::to_string(layout.tensor), "compile one");
}

// For steps on batches like `batch`; memory that was never written holds NaN.
inline TrainerOptions options_for(const Batch& batch, int microbatches) {
  TrainerOptions options;
  options.batch = batch.sequences;
  options.sequence = batch.length;
  options.microbatches = microbatches;
  options.learning_rate.peak = 1e-2;
  options.seed = 7;
  options.threads_per_rank = 1;
  options.poison = true;
  return options;
}

}  // namespace trilith::test
