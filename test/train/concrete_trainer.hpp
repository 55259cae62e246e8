// AnyTrainer for the layouts of one TP.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <trilith/comm/thread_world.hpp>
#include <trilith/core/config.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/llama.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/train/trainer.hpp>

#include "test/train/any_trainer.hpp"

namespace trilith::test {

template <class Config, template <class> class Model = Gpt>
class ConcreteTrainer final : public AnyTrainer {
  using T = Trainer<Model, Config>;

 public:
  ConcreteTrainer(const typename T::Shape& shape, const TrainerOptions& options, int ranks)
      : world_(ranks), trainer_(shape, world_, options) {}

  StepReport step(const Batch& batch) override { return trainer_.step(batch); }
  StepReport gradients(const Batch& batch) override { return trainer_.gradients(batch); }
  double evaluate(const std::vector<Batch>& batches) override { return trainer_.evaluate(batches); }
  Index evaluation_batch() const override { return trainer_.evaluation_batch(); }
  std::vector<float> next_token_logits(const std::vector<std::int32_t>& tokens) override {
    return trainer_.next_token_logits(tokens);
  }
  void load_any(const AnySource& source) override { trainer_.load(source); }
  void save(const std::filesystem::path& path) override { trainer_.save(path); }
  std::int64_t steps_done() const override { return trainer_.steps_done(); }

  std::vector<NamedShape> tensors() const override { return T::Model::tensors(trainer_.plan().model); }
  const std::vector<StageRange>& stages() const override { return trainer_.plan().stages; }
  int ranks() const override { return world_.size(); }
  const Parameters<Host>& parameters(int rank) const override { return trainer_.rank(rank).parameters(); }
  Ledger& ledger(int rank) override { return world_.rank(rank).ledger(); }

 private:
  ThreadWorld world_;
  T trainer_;
};

template <template <class> class Model, class Shape, int TP, int PP, int DP>
std::unique_ptr<AnyTrainer> make_concrete(Policy schedule, const Shape& shape, const TrainerOptions& options,
                                          int ranks) {
  using Ranks = Parallelism<TP, PP, DP>;
  if (schedule == Policy::gpipe) {
    return std::make_unique<ConcreteTrainer<Config<Ranks, Schedule<GPipe>>, Model>>(shape, options, ranks);
  }
  return std::make_unique<ConcreteTrainer<Config<Ranks, Schedule<OneFOneB>>, Model>>(shape, options, ranks);
}

template <template <class> class Model, int TP, class Shape>
std::unique_ptr<AnyTrainer> make_trainer_of_model(const Layout& layout, const Shape& shape,
                                                  const TrainerOptions& options, int ranks) {
  std::unique_ptr<AnyTrainer> trainer;
  const auto try_layout = [&]<int PP, int DP>() {
    if (layout.pipeline != PP || layout.data != DP) return;
    trainer = make_concrete<Model, Shape, TP, PP, DP>(layout.schedule, shape, options, ranks);
  };
  const auto try_pipeline = [&]<int PP>() {
    try_layout.template operator()<PP, 1>();
    try_layout.template operator()<PP, 2>();
    try_layout.template operator()<PP, 4>();
  };
  try_pipeline.template operator()<1>();
  try_pipeline.template operator()<2>();
  try_pipeline.template operator()<4>();
  require(trainer != nullptr, "tests have no trainer of this PP and DP", "compile one");
  return trainer;
}

template <int TP>
std::unique_ptr<AnyTrainer> make_trainer_of(const Layout& layout, const GptShape& shape,
                                            const TrainerOptions& options, int ranks) {
  return make_trainer_of_model<Gpt, TP>(layout, shape, options, ranks);
}

template <int TP>
std::unique_ptr<AnyTrainer> make_trainer_of(const Layout& layout, const LlamaShape& shape,
                                            const TrainerOptions& options, int ranks) {
  return make_trainer_of_model<Llama, TP>(layout, shape, options, ranks);
}

}  // namespace trilith::test
