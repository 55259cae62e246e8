// The trainer of one rank: its part of the model, of the optimizer's state and of every step. Compiled once
// per model and LayerConfig; the layout of data and pipeline ranks and the schedule arrive as values.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/core/half.hpp>
#include <trilith/core/recorder.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/nn/model_site.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/optim/adamw.hpp>
#include <trilith/optim/gradient_norm.hpp>
#include <trilith/optim/gradient_reducer.hpp>
#include <trilith/optim/loss_scale.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/parallel/stage_range.hpp>
#include <trilith/pipeline/executor.hpp>
#include <trilith/pipeline/stage.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/slots.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/trainer_options.hpp>
#include <trilith/train/trainer_plan.hpp>

namespace trilith::inline v0 {

template <class Model, class Rank>
class RankTrainer {
 public:
  using device_type = typename Model::layer_config::device_type;
  using stream = typename device_type::stream;
  using element = typename Model::layer_config::element;
  using C = typename Rank::communicator;

  // Called on the rank's own thread, as is everything else here. `plan` must outlive the trainer.
  RankTrainer(const TrainerPlan<Model>& plan, Rank& rank)
      : plan_(&plan),
        coordinate_(plan.parallel.coordinate_of(rank.rank())),
        memory_(place(plan, rank.rank())),
        stream_(place(plan, rank.rank())),
        tensor_group_(rank.group("tensor", plan.parallel.group(Axis::tensor, rank.rank()))),
        context_group_(rank.group("context", plan.parallel.group(Axis::context, rank.rank()))),
        pipeline_group_(rank.group("pipeline", plan.parallel.group(Axis::pipeline, rank.rank()))),
        gradient_group_(rank.group("data", plan.parallel.gradient_group(rank.rank()))),
        parameters_(coordinate_.tensor),
        scalar_(memory_.allocate(sizeof(double))),
        loss_scale_(plan.options.loss_scaling) {
    build_chunks();
    join_embedding_group(rank);
    join_copy_group(rank);
    parameters_.allocate(memory_);
    parameters_.initialize(stream_, plan.options.seed);
    for (Chunk& chunk : chunks_) chunk.model->allocate(memory_);
    build_stages();
    executor_.emplace(plan.pipeline, exchanges(), pipeline_group_, stages());
    optimizer_.emplace(stream_, parameters_, memory_);
    norm_.emplace(parameters_, Model::tensors(plan.model), memory_);
    reducer_.emplace(gradient_group_, parameters_.gradients(), tied_range(), plan.options.bucket);
  }

  // One step of training on `batch`, of which this rank reads its data rank's part. `step` counts from 1. All
  // ranks report the same; where the report is not sound(), no weight has been updated.
  StepReport step(const Batch& batch, std::int64_t step) {
    StepReport report = gradients(batch);
    report.step = step;
    report.learning_rate = plan_->options.learning_rate.at(step);
    if constexpr (scales_loss) {
      report.skipped = std::isfinite(report.loss) && !std::isfinite(report.gradient_norm);
      if (report.skipped || report.sound()) loss_scale_.update(!report.skipped);
    }
    if (!report.sound()) return report;
    AdamW settings = plan_->options.optimizer;
    settings.learning_rate = static_cast<float>(report.learning_rate);
    const Recording recording(recording_to(), stream_, Activity::update);
    optimizer_->update(stream_, settings, step, gradient_factor(report));
    return report;
  }

  // Loss and gradients, reduced over all ranks, without an update: see parameters(), whose gradients are
  // those of the loss times report.loss_scale.
  StepReport gradients(const Batch& batch) {
    if (!recorder_.events().empty()) {
      stream_.synchronize();  // it may have yet to stamp them
      recorder_.clear();
    }
    const double valid = [&] {
      const Recording recording(recording_to(), stream_, Activity::load_batch);
      return load(batch, plan_->options.microbatches);
    }();
    if (valid == 0) return {};
    compute_gradients(valid);
    StepReport report{.valid_tokens = static_cast<Index>(valid), .loss_scale = loss_scale_.value()};
    {
      const Recording recording(recording_to(), stream_, Activity::sum_loss);
      report.loss = total_loss(valid);
    }
    const Recording recording(recording_to(), stream_, Activity::gradient_norm);
    report.gradient_norm = norm_->compute(stream_, tensor_group_, pipeline_group_) / report.loss_scale;
    return report;
  }

  // From the next step on, whether events are recorded.
  void record(bool on) { records_ = on; }

  // Those of the last step, or of the last gradients(); empty where they were not recorded.
  const std::deque<Event>& events() const {
    stream_.synchronize();
    return recorder_.events();
  }

  // Σ of the losses of the valid tokens of `batch`, and their number. The batch has any number of
  // microbatches' worth of sequences for each data rank.
  std::pair<double, double> evaluate(const Batch& batch) {
    const Index per_pass = plan_->tokens().batch * plan_->parallel.data;
    const int microbatches = static_cast<int>(batch.sequences / per_pass);
    const double valid = load(batch, microbatches);
    run_forward(stages(), microbatches);
    return {total_loss(1), valid};
  }

  // The logits that follow `tokens`, at most as many as a sequence has; whole on every rank.
  std::vector<float> next_token_logits(const std::vector<std::int32_t>& tokens);

  // Reads this rank's weights from `source`, in which source.tensor(name) has read(first, count, float*).
  template <class Source>
  void load_weights(const Source& source) {
    std::vector<float> run;
    for (const ParameterOfRank& p : parameters_) {
      const auto& tensor = source.tensor(p.spec.name);
      p.spec.partition.for_each_run(parameters_.tensor_rank(), [&](Index global, Index local, Index count) {
        run.resize(static_cast<std::size_t>(count));
        tensor.read(global, count, run.data());
        upload(stream_, run.data(), p.value.slice(0, local, count));
      });
    }
    parameters_.copy_values(stream_);
  }

  // Writes what this rank holds of the weights, and no other rank writes, to target.tensor(name), the whole
  // tensor in this program's memory.
  template <class Target>
  void save_weights(Target& target) {
    if (coordinate_.data != 0 || coordinate_.context != 0) return;
    for (const ParameterOfRank& p : parameters_) {
      if (p.spec.is_copy || !p.spec.partition.first_holder(parameters_.tensor_rank())) continue;
      float* const whole = target.tensor(p.spec.name).data();
      p.spec.partition.for_each_run(parameters_.tensor_rank(), [&](Index global, Index local, Index count) {
        download(stream_, Vector<const float>(p.value.slice(0, local, count)), whole + global);
      });
    }
  }

  const Parameters<device_type, element>& parameters() const { return parameters_; }
  const Coordinate& coordinate() const { return coordinate_; }
  const stream& compute_stream() const { return stream_; }

  // Of one microbatch in flight in a chunk of this rank.
  std::size_t activation_bytes(int chunk) const { return chunks_[chunk].stage->activation_bytes(); }

  MemoryReport memory() const {
    const auto elements = static_cast<std::size_t>(parameters_.size());
    const std::size_t state = elements * sizeof(float);
    const std::size_t copies = Parameters<device_type, element>::has_copies ? elements * sizeof(element) : 0;
    MemoryReport report{
        .parameters = state + copies, .gradients = state, .moments = 2 * state, .peak = memory_.peak_bytes()};
    for (const Chunk& chunk : chunks_) report.activations += chunk.stage->bytes();
    return report;
  }

 private:
  using StageOf = Stage<Model>;
  using ParameterOfRank = Parameter<element>;

  static constexpr bool scales_loss = std::same_as<element, Float16>;
  using LossScale = std::conditional_t<scales_loss, DynamicLossScale, UnitLossScale>;

  static Place place(const TrainerPlan<Model>& plan, int rank) {
    return {.rank = rank,
            .threads = threads_per_rank(plan.options, plan.parallel),
            .poison = plan.options.poison};
  }

  struct Chunk {
    StageRange range;
    std::unique_ptr<Model> model;
    std::unique_ptr<StageOf> stage = {};
    std::unique_ptr<StageOf> generation = {};  // of one sequence; made when first asked for
  };

  // In the order of their stages, so that the first stage makes the tied table that a last one may share.
  void build_chunks() {
    chunks_.resize(static_cast<std::size_t>(plan_->pipeline.chunks));
    for (int stage = 0; stage < plan_->pipeline.stages(); ++stage) {
      const auto [rank, chunk] = plan_->pipeline.place_of(stage);
      if (rank != coordinate_.pipeline) continue;
      chunks_[chunk].range = plan_->stages[stage];
      chunks_[chunk].model =
          std::make_unique<Model>(plan_->model, plan_->stages[stage],
                                  ModelSite<typename Model::layer_config>{.parameters = parameters_,
                                                                          .tensor_group = tensor_group_,
                                                                          .context_group = context_group_,
                                                                          .memory = memory_,
                                                                          .stream = stream_,
                                                                          .sequence = plan_->options.sequence,
                                                                          .padding = plan_->options.padding});
    }
  }

  const std::vector<schedule::Exchange>& exchanges() const { return plan_->exchanges[coordinate_.pipeline]; }

  void build_stages() {
    const schedule::Slots slots = schedule::slots(plan_->pipeline, coordinate_.pipeline, exchanges());
    const bool apart = schedule::splits_backward(plan_->pipeline.programs[coordinate_.pipeline]);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      chunks_[i].stage =
          std::make_unique<StageOf>(*chunks_[i].model, chunks_[i].range.last, plan_->tokens(),
                                    StageSlots{.activations = slots.activations.count[i],
                                               .inputs = slots.inputs.count[i],
                                               .gradients = slots.gradients.count[i],
                                               .output_gradients = slots.output_gradients.count[i],
                                               .apart = apart},
                                    memory_);
    }
  }

  std::vector<StageOf*> stages() const {
    std::vector<StageOf*> all;
    for (const Chunk& chunk : chunks_) all.push_back(chunk.stage.get());
    return all;
  }

  // The first and the last stage sum their gradients of a tied table where they are on different ranks.
  void join_embedding_group(Rank& rank) {
    const int first = plan_->pipeline.place_of(0).first;
    const int last = plan_->pipeline.place_of(plan_->pipeline.stages() - 1).first;
    const bool holds_table = coordinate_.pipeline == first || coordinate_.pipeline == last;
    if (first == last || !holds_table || tied() == nullptr) return;
    embedding_group_.emplace(
        rank.group("embedding", plan_->parallel.embedding_group(rank.rank(), first, last)));
  }

  // Tensor ranks that hold copies of a part sum their gradients of it.
  void join_copy_group(Rank& rank) {
    int copies = 1;
    for (const ParameterOfRank& p : parameters_) copies = std::max(copies, p.spec.partition.copies);
    if (copies == 1) return;
    const std::vector<int> tensor_ranks = plan_->parallel.group(Axis::tensor, rank.rank());
    const auto first = tensor_ranks.begin() + coordinate_.tensor / copies * copies;
    copy_group_.emplace(rank.group("copies", std::vector<int>(first, first + copies)));
  }

  const ParameterOfRank* tied() const {
    for (const Chunk& chunk : chunks_) {
      if (chunk.model->tied() != nullptr) return chunk.model->tied();
    }
    return nullptr;
  }

  // What the reducer's buckets leave out.
  typename GradientReducer<C>::Range tied_range() const {
    if (tied() == nullptr) return {};
    return {.first = tied()->offset, .last = parameters_.end_of(*tied())};
  }

  // The rows of each sequence that this rank holds.
  auto rows() const { return plan_->split().rows_of(coordinate_.context); }

  // Copies this rank's part of the batch to device memory, as microbatches. Returns the number of valid
  // tokens of the global batch.
  double load(const Batch& batch, int microbatches) {
    const Index sequences = batch.sequences / plan_->parallel.data;
    const auto rows = this->rows();
    const Index count = sequences * rows.size();
    host_tokens_.clear();
    host_targets_.clear();
    for (Index i = coordinate_.data * sequences; i < (coordinate_.data + 1) * sequences; ++i) {
      for (Index row = 0; row < rows.size(); ++row) {
        const Index position = rows.position(row);
        const auto at = static_cast<std::size_t>(i * batch.length + position);
        const bool padding = position >= batch.length;
        host_tokens_.push_back(padding ? 0 : batch.tokens[at]);
        host_targets_.push_back(padding ? ignored_target : batch.targets[at]);
      }
    }
    const auto bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
    if (tokens_.bytes() < bytes) {
      tokens_ = memory_.allocate(bytes);
      targets_ = memory_.allocate(bytes);
    }
    const Vector<std::int32_t> tokens{reinterpret_cast<std::int32_t*>(tokens_.data()), {count}};
    const Vector<std::int32_t> targets{reinterpret_cast<std::int32_t*>(targets_.data()), {count}};
    upload(stream_, host_tokens_.data(), tokens);
    upload(stream_, host_targets_.data(), targets);

    const TokenShape shape{sequences / microbatches, rows.size()};
    microbatches_.clear();
    for (int i = 0; i < microbatches; ++i) {
      microbatches_.push_back({.shape = shape,
                               .tokens = tokens.slice(0, i * shape.rows(), shape.rows()),
                               .targets = targets.slice(0, i * shape.rows(), shape.rows())});
    }
    const auto valid = std::count_if(host_targets_.begin(), host_targets_.end(),
                                     [](std::int32_t target) { return target >= 0; });
    return summed_over(gradient_group_, static_cast<double>(valid));
  }

  // Tells the stages what to work on. Without a function for final gradients nothing goes backward.
  void begin(const std::vector<StageOf*>& stages, float loss_scale,
             const std::function<void(Index, Index)>& final) {
    const std::size_t bytes = microbatches_.size() * sizeof(double);
    if (losses_.bytes() < bytes) losses_ = memory_.allocate(bytes);
    host_losses_.assign(microbatches_.size(), 0.0);
    upload(stream_, host_losses_.data(), losses());
    for (StageOf* stage : stages) stage->begin(microbatches_, losses(), loss_scale, final);
  }

  void compute_gradients(double valid) {
    reducer_->begin();
    begin(stages(), static_cast<float>(loss_scale_.value() / valid),
          [this](Index first, Index last) { reducer_->final(stream_, first, last); });
    executor_->run(stream_, recording_to());
    reduce_tied();
    const Recording recording(recording_to(), stream_, Activity::reduce_gradients);
    reducer_->finish(stream_);
    sum_copies();
  }

  Recorder* recording_to() { return records_ ? &recorder_ : nullptr; }

  // First between the first and the last stage, then over data ranks.
  void reduce_tied() {
    if (tied() == nullptr) return;
    const Recording recording(recording_to(), stream_, Activity::reduce_tied);
    for (Chunk& chunk : chunks_) chunk.model->combine_tied(stream_);
    const Vector<float> gradient = tied()->gradient;
    if (embedding_group_) embedding_group_->all_reduce(stream_, gradient).wait(stream_);
    if (gradient_group_.size() > 1) gradient_group_.all_reduce(stream_, gradient).wait(stream_);
  }

  // Once a step, after the sums over data ranks.
  void sum_copies() {
    if (!copy_group_) return;
    for (const ParameterOfRank& p : parameters_) {
      if (p.spec.partition.copies > 1) copy_group_->all_reduce(stream_, p.gradient).wait(stream_);
    }
  }

  // Over the microbatches of all data ranks; known to every rank. Only the last stage has filled its losses.
  double total_loss(double valid) {
    download(stream_, Vector<const double>(losses()), host_losses_.data());
    const double loss = std::accumulate(host_losses_.begin(), host_losses_.end(), 0.0);
    return summed_over(pipeline_group_, summed_over(gradient_group_, loss)) / valid;
  }

  Vector<double> losses() const {
    return {reinterpret_cast<double*>(losses_.data()), {static_cast<Index>(microbatches_.size())}};
  }

  double summed_over(C& group, double value) {
    if (group.size() == 1) return value;
    const Vector<double> device{reinterpret_cast<double*>(scalar_.data()), {1}};
    upload(stream_, &value, device);
    group.all_reduce(stream_, device).wait(stream_);
    download(stream_, Vector<const double>(device), &value);
    return value;
  }

  // What the gradients are multiplied by in the update: clipped, and without the loss's scale.
  float gradient_factor(const StepReport& report) const {
    const double most = plan_->options.clip;
    const double norm = report.gradient_norm;
    const double clip = most > 0 && norm > most ? most / norm : 1.0;
    return static_cast<float>(clip / report.loss_scale);
  }

  void run_forward(const std::vector<StageOf*>& stages, int microbatches) {
    begin(stages, 1, nullptr);
    const schedule::Pipeline pipeline = schedule::forward_only(plan_->pipeline, microbatches);
    Executor<StageOf, C>(pipeline, schedule::exchanges(pipeline, coordinate_.pipeline), pipeline_group_,
                         stages)
        .run(stream_);
  }

  const TrainerPlan<Model>* plan_;
  Coordinate coordinate_;
  typename device_type::memory memory_;
  Recorder recorder_;  // outlives the stream, which stamps its events
  stream stream_;
  C tensor_group_;
  C context_group_;
  C pipeline_group_;
  C gradient_group_;
  std::optional<C> embedding_group_;
  std::optional<C> copy_group_;
  Parameters<device_type, element> parameters_;
  std::vector<Chunk> chunks_;
  std::optional<Executor<StageOf, C>> executor_;
  std::optional<AdamWOptimizer<device_type, element>> optimizer_;
  std::optional<GradientNorm<device_type, element>> norm_;
  std::optional<GradientReducer<C>> reducer_;
  typename device_type::allocation tokens_;
  typename device_type::allocation targets_;
  typename device_type::allocation losses_;  // of each microbatch
  typename device_type::allocation logits_;  // of the next token; made when first asked for
  typename device_type::allocation scalar_;  // one double that is being reduced
  [[no_unique_address]] LossScale loss_scale_;
  std::vector<std::int32_t> host_tokens_;
  std::vector<std::int32_t> host_targets_;
  std::vector<double> host_losses_;
  std::vector<Microbatch> microbatches_;
  bool records_ = false;
};

template <class Model, class Rank>
std::vector<float> RankTrainer<Model, Rank>::next_token_logits(const std::vector<std::int32_t>& tokens) {
  const TokenShape shape{1, rows().size()};
  std::vector<StageOf*> stages;
  for (Chunk& chunk : chunks_) {
    if (!chunk.generation) {
      chunk.generation =
          std::make_unique<StageOf>(*chunk.model, chunk.range.last, shape, StageSlots{}, memory_);
    }
    stages.push_back(chunk.generation.get());
  }

  // Every data rank does the same. What stands behind the tokens cannot be seen by them.
  Batch batch{.sequences = plan_->parallel.data, .length = plan_->options.sequence};
  for (int copy = 0; copy < plan_->parallel.data; ++copy) {
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    batch.tokens.resize(static_cast<std::size_t>((copy + 1) * batch.length), 0);
  }
  batch.targets.assign(batch.tokens.size(), ignored_target);
  load(batch, 1);
  run_forward(stages, 1);

  // Each tensor rank of the last stage has a part of the logits, on the context rank that holds the last
  // token; summing them with zeros elsewhere brings them to all.
  const Index vocabulary = plan_->model.vocabulary;
  if (logits_.bytes() == 0) logits_ = memory_.allocate(static_cast<std::size_t>(vocabulary) * sizeof(float));
  const Vector<float> all{reinterpret_cast<float*>(logits_.data()), {vocabulary}};
  fill(stream_, all, 0.0f);
  const Index end = static_cast<Index>(tokens.size());
  const Index row = rows().below(end - 1);
  const bool holds_last_token = rows().below(end) > row;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!chunks_[i].range.last || !holds_last_token) continue;
    const auto part = chunks_[i].model->logits(stages[i]->activations(0), row);
    copy(stream_, part.values, all.slice(0, part.first, part.values.size()));
  }
  if (tensor_group_.size() > 1) tensor_group_.all_reduce(stream_, all).wait(stream_);
  if (context_group_.size() > 1) context_group_.all_reduce(stream_, all).wait(stream_);
  if (pipeline_group_.size() > 1) pipeline_group_.all_reduce(stream_, all).wait(stream_);
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  download(stream_, Vector<const float>(all), logits.data());
  return logits;
}

}  // namespace trilith::inline v0
