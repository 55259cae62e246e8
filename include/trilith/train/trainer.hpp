// Trains a model under a layout:
//
//     Trainer<Gpt, Config<Parallelism<2, 2, 2>, Schedule<OneFOneB>>> trainer{shape, world, options};
//     StepReport report = trainer.step(batch);
//
// The device's operations are to be included too: ops/host.hpp for Device<Host>. trilith.hpp has all of it.
//
// One object for all ranks of this process; its functions are called from outside the ranks, and each runs
// on all of them. Only this class depends on PP, DP and the schedule; it is thin.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/comm/thread_world.hpp>
#include <trilith/comm/world.hpp>
#include <trilith/core/config.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/model_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/plan/stage_split.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/laws.hpp>
#include <trilith/schedule/microbatches.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/proof.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/rank_trainer.hpp>
#include <trilith/train/safetensors_writer.hpp>
#include <trilith/train/trainer_options.hpp>
#include <trilith/train/trainer_plan.hpp>

namespace trilith::inline v0 {

namespace detail {

// Of the layout's device; whatever is no Config is refused later, in a sentence.
template <class Layout>
struct DefaultWorld {
  using type = ThreadWorld;
};
template <class... Policies>
struct DefaultWorld<Config<Policies...>>
    : ThreadWorldOf<typename Config<Policies...>::template policy<DeviceCategory>::device_type> {};

template <class Other, class World>
concept world_besides = world<Other> && !std::derived_from<Other, World>;

}  // namespace detail

template <template <class> class ModelTemplate, class Layout,
          class World = typename detail::DefaultWorld<Layout>::type>
class Trainer {
  static_assert(is_config<Layout>,
                "Trainer<Model, Layout>: Layout must be a Config<...> of policies, for example "
                "Config<Parallelism<2, 2, 2>>");
  static_assert(trilith::world<World>,
                "Trainer<Model, Layout, World>: World must be a world of ranks, such as ThreadWorld; "
                "comm/world.hpp says what it has");

 public:
  using Model = ModelTemplate<LayerConfigOf<Layout, typename World::communicator>>;
  using Shape = typename Model::Shape;
  using SchedulePolicy = typename Layout::template policy<ScheduleCategory>::schedule;
  using Rank = typename World::rank_type;

  static constexpr ParallelShape parallel = Layout::template policy<ParallelismCategory>::shape;

  using ShapePolicy = typename Layout::template policy<ModelShapeCategory>;
  static constexpr bool shape_is_constant = requires { ShapePolicy::shape; };

  using MicrobatchesPolicy = typename Layout::template policy<MicrobatchesCategory>;
  static constexpr bool microbatches_are_constant = requires { MicrobatchesPolicy::count; };

  // `world` must have as many ranks as the layout, and outlive the trainer.
  Trainer(const Shape& shape, World& world, TrainerOptions options)
      : Trainer(world, shape, std::move(options)) {
    static_assert(
        !shape_is_constant,
        "Trainer: the layout's ModelShape<S> already gives the shape; write Trainer{world, options}");
  }

  // With ModelShape<…> in the layout.
  Trainer(World& world, TrainerOptions options) : Trainer(world, constant_shape(), std::move(options)) {
    static_assert(
        shape_is_constant,
        "Trainer: the layout does not give the model's shape; write Trainer{shape, world, options} or "
        "put ModelShape<S> into the layout");
  }

  // Refuse another world in a sentence.
  template <detail::world_besides<World> Other>
  Trainer(const Shape& shape, Other& world, TrainerOptions options)
      : Trainer(shape, of_device(world), std::move(options)) {}
  template <detail::world_besides<World> Other>
  Trainer(Other& world, TrainerOptions options) : Trainer(of_device(world), std::move(options)) {}

  Trainer(const Trainer&) = delete;  // the ranks hold references to its plan
  Trainer& operator=(const Trainer&) = delete;

  // One step on a global batch of options.batch sequences. Throws, and leaves the weights as they were and
  // the trainer of use, when the batch is wrong or the loss is not finite. With Precision<F16> a report may
  // say that the step was skipped: it does not count.
  StepReport step(const Batch& batch) {
    check_batch(batch, plan_.options.batch);
    const StepReport report =
        agreed_report([&](auto& rank_trainer) { return rank_trainer.step(batch, step_ + 1); });
    if (report.skipped) return report;
    require(std::isfinite(report.loss) && std::isfinite(report.gradient_norm),
            "the loss of step " + std::to_string(report.step) + " is " + std::to_string(report.loss) +
                ", the norm of its gradients " + std::to_string(report.gradient_norm),
            "lower the learning rate, clip, or look at the data; the weights are those of the step before");
    ++step_;
    return report;
  }

  // Loss and gradients of a batch, without an update. The gradients are those of rank(i).parameters().
  StepReport gradients(const Batch& batch) {
    check_batch(batch, plan_.options.batch);
    return agreed_report([&](auto& rank_trainer) { return rank_trainer.gradients(batch); });
  }

  // Mean loss over the valid tokens of all batches, each of a multiple of evaluation_batch() sequences.
  double evaluate(const std::vector<Batch>& batches) {
    for (const Batch& batch : batches) check_batch(batch, 0);
    double loss = 0;
    double valid = 0;
    run([&](Rank& rank) {
      for (const Batch& batch : batches) {
        const auto [batch_loss, batch_valid] = ranks_[rank.rank()]->evaluate(batch);
        if (rank.rank() != 0) continue;
        loss += batch_loss;
        valid += batch_valid;
      }
    });
    require(valid > 0, "there is no valid token to evaluate on", "give a longer text");
    require(std::isfinite(loss), "the loss of the evaluation is " + std::to_string(loss),
            "the weights are of no use; train from an earlier checkpoint with a lower learning rate");
    return loss / valid;
  }

  // Sequences that go through the ranks at once in an evaluation.
  Index evaluation_batch() const { return plan_.tokens().batch * parallel.data; }

  // The logits of what may follow `tokens`, of which there are 1 to options.sequence.
  std::vector<float> next_token_logits(const std::vector<std::int32_t>& tokens) {
    const Index count = static_cast<Index>(tokens.size());
    require(count >= 1 && count <= plan_.options.sequence,
            "asked to continue " + std::to_string(count) + " tokens",
            "give 1 to " + std::to_string(plan_.options.sequence) + ", the trainer's sequence");
    check_tokens(tokens, 0);
    std::vector<float> logits;
    run([&](Rank& rank) {
      std::vector<float> mine = ranks_[rank.rank()]->next_token_logits(tokens);
      if (rank.rank() == 0) logits = std::move(mine);
    });
    return logits;
  }

  // Reads all weights from `source`, in which source.tensor(name) has read(first, count, float*).
  template <class Source>
  void load(const Source& source) {
    run([&](Rank& rank) { ranks_[rank.rank()]->load_weights(source); });
  }

  // Throws what save(path) would throw now: for a path that cannot be written, or a disk that is too small.
  // To be asked before a long training.
  void check_save(const std::filesystem::path& path) const { safetensors_writer(path); }

  // Writes all weights as one safetensors file, whatever the layout; a failure leaves an old file whole.
  void save(const std::filesystem::path& path) {
    SafetensorsWriter writer = safetensors_writer(path);
    run([&](Rank& rank) { ranks_[rank.rank()]->save_weights(writer); });
    writer.commit();
  }

  // From the next step on, whether each rank records what it does: rank(i).events(), of the last step alone.
  // trace/recorded.hpp makes timelines of them.
  void record(bool on) {
    run([&](Rank& rank) { ranks_[rank.rank()]->record(on); });
  }

  std::int64_t steps_done() const { return step_; }
  const TrainerPlan<Model>& plan() const { return plan_; }

  // A rank of this process.
  const RankTrainer<Model, Rank>& rank(int index) const { return *ranks_[index]; }

 private:
  static constexpr bool shape_fits() {
    if constexpr (shape_is_constant) {
      constexpr bool is_of_the_model = std::is_same_v<decltype(ShapePolicy::shape), const Shape>;
      static_assert(
          is_of_the_model,
          "ModelShape<S>: S must be a shape of the trainer's model, such as GptShape{.heads = 12} for Gpt");
      if constexpr (is_of_the_model) {
        // Completing the type runs its assertions.
        return sizeof(typename Model::template CheckedShape<ShapePolicy::shape, parallel>) > 0;
      }
    }
    return true;
  }
  static_assert(shape_fits());

  // Whether the compiler has proved the schedule: see schedule/proof.hpp.
  static constexpr bool schedule_is_proved() {
    if constexpr (microbatches_are_constant) {
      constexpr int m = MicrobatchesPolicy::count;
      static_assert(sizeof(schedule::Conditions<SchedulePolicy, parallel.pipeline, m>) > 0);
      if constexpr (schedule::provable(parallel.pipeline, m, SchedulePolicy::chunks)) {
        return sizeof(schedule::Proof<SchedulePolicy, parallel.pipeline, m>) > 0;
      }
    }
    return false;
  }
  static constexpr bool proved = schedule_is_proved();

  static constexpr Shape constant_shape() {
    if constexpr (shape_is_constant) return ShapePolicy::shape;
    return {};
  }

  template <class Other>
  static World& of_device(Other& world) {
    static_assert(std::derived_from<Other, World>,
                  "Trainer: the world must be a CudaThreadWorld where the layout has Device<Cuda>, else a "
                  "ThreadWorld; or name its type: Trainer<Model, Layout, World>");
    return world;
  }

  Trainer(World& world, const Shape& shape, TrainerOptions options)
      : world_(&world), plan_(make_plan(shape, world, std::move(options))), ranks_(world.size()) {
    run([&](Rank& rank) { ranks_[rank.rank()] = std::make_unique<RankTrainer<Model, Rank>>(plan_, rank); });
  }

  SafetensorsWriter safetensors_writer(const std::filesystem::path& path) const {
    return {path, Model::tensors(plan_.model), Model::metadata(plan_.model)};
  }

  static int microbatches(const TrainerOptions& options) {
    if constexpr (microbatches_are_constant) {
      constexpr int m = MicrobatchesPolicy::count;
      require(options.microbatches == m || options.microbatches == TrainerOptions{}.microbatches,
              "the layout has Microbatches<" + std::to_string(m) + ">, the options say " +
                  std::to_string(options.microbatches) + " microbatches",
              "leave microbatches out of the options");
      return m;
    }
    return options.microbatches;
  }

  static TrainerPlan<Model> make_plan(const Shape& shape, const World& world, TrainerOptions options) {
    check(shape, parallel);  // that of the model's shape
    require(world.size() == parallel.world(),
            "the layout has " + std::to_string(parallel.world()) + " ranks, the world " +
                std::to_string(world.size()),
            "make a world of TP · PP · DP · CP ranks");
    require(options.sequence <= shape.positions,
            "a sequence of " + std::to_string(options.sequence) + " tokens does not fit the model's " +
                std::to_string(shape.positions) + " positions",
            "use a shorter sequence or a model with more positions");
    options.microbatches = microbatches(options);
    check(options);
    microbatch_size(options, parallel);
    if (const char* sentence = schedule::refusal<SchedulePolicy>(parallel.pipeline, options.microbatches)) {
      throw Error(sentence, "this layout has p=" + std::to_string(parallel.pipeline) +
                                ", this trainer m=" + std::to_string(options.microbatches));
    }
    const schedule::Pipeline pipeline =
        schedule::make_pipeline<SchedulePolicy>(parallel.pipeline, options.microbatches);
    if constexpr (!proved) schedule::require_lawful(pipeline, SchedulePolicy::name);

    std::vector<int> split = options.layers_per_stage;
    if (split.empty()) split = split_layers(Model::cost(shape, options.sequence), pipeline.stages());
    check_split(split, shape.layers, pipeline.stages());
    TrainerPlan<Model> plan{.model = shape,
                            .parallel = parallel,
                            .pipeline = pipeline,
                            .exchanges = schedule::exchanges(pipeline),
                            .stages = stages_of(split),
                            .options = std::move(options)};
    (void)plan.split();  // throws where the context ranks cannot split a sequence
    return plan;
  }

  // Runs `task` on every rank; what it throws is named by the rank's coordinate.
  template <class Task>
  void run(Task&& task) {
    world_->run([&](Rank& rank) {
      try {
        task(rank);
      } catch (const Error& error) {
        throw error.at("rank " + std::to_string(rank.rank()) + " (" +
                       to_string(parallel.coordinate_of(rank.rank())) + ")");
      }
    });
  }

  // What all ranks report of a batch.
  template <class Task>
  StepReport agreed_report(Task&& task) {
    StepReport report;
    run([&](Rank& rank) {
      const StepReport mine = task(*ranks_[rank.rank()]);
      if (rank.rank() == 0) report = mine;
    });
    require(report.valid_tokens > 0, "the batch has no valid token",
            "give at least one target that is not ignored");
    return report;
  }

  // `sequences`: 0 for any multiple of what goes through at once.
  void check_batch(const Batch& batch, Index sequences) const {
    Index positions = 0;
    const bool counted = !__builtin_mul_overflow(batch.sequences, batch.length, &positions);
    require(counted && batch.length == plan_.options.sequence &&
                static_cast<Index>(batch.tokens.size()) == positions &&
                static_cast<Index>(batch.targets.size()) == positions,
            "a batch of " + std::to_string(batch.sequences) + " sequences of " +
                std::to_string(batch.length) + " tokens, with " + std::to_string(batch.tokens.size()) +
                " tokens and " + std::to_string(batch.targets.size()) + " targets",
            "give sequences of " + std::to_string(plan_.options.sequence) +
                " tokens, one token and one target for each place");
    const Index multiple = sequences > 0 ? sequences : evaluation_batch();
    require(
        sequences > 0 ? batch.sequences == sequences : batch.sequences > 0 && batch.sequences % multiple == 0,
        "a batch of " + std::to_string(batch.sequences) + " sequences",
        (sequences > 0 ? "give " : "give a multiple of ") + std::to_string(multiple));
    check_tokens(batch.tokens, 0);
    check_tokens(batch.targets, ignored_target);
  }

  void check_tokens(const std::vector<std::int32_t>& tokens, std::int32_t least) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] >= least && tokens[i] < plan_.model.vocabulary) continue;
      throw Error("token " + std::to_string(tokens[i]) + " at place " + std::to_string(i) +
                      " of the batch is outside the vocabulary of " + std::to_string(plan_.model.vocabulary),
                  "use a model with a larger vocabulary, or the tokenizer that it was made for");
    }
  }

  World* world_;
  TrainerPlan<Model> plan_;
  std::vector<std::unique_ptr<RankTrainer<Model, Rank>>> ranks_;
  std::int64_t step_ = 0;
};

}  // namespace trilith::inline v0
