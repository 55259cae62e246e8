// What the simulator says that a training step takes, and what it takes: on two pipeline ranks of one thread
// each.
//
//     ./bazelw run //bench:step_prediction
//
// The costs F, I and W of each stage are medians of what its passes took in a step of a schedule that does I
// and W apart: ZeroBubbleH1 where a rank holds one stage, ZeroBubbleV where it holds two. From these alone,
// with messages that take no time, schedule::simulate predicts the time from the first action of a step to
// the end of its last under every schedule. Another run measures it. Rows show the medians of both, and of
// their ratio, measured over predicted.
//
// First the result is proved: every schedule gives the loss of one rank to the bit, and its ranks record each
// action of their programs once.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include <benchmark/benchmark.h>

#include <trilith/core/random.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/trace/recorded.hpp>
#include <trilith/trilith.hpp>

using namespace trilith;

namespace {

constexpr GptShape shape{.layers = 8, .hidden = 256, .heads = 4, .positions = 128, .vocabulary = 256};
constexpr int microbatches = 8;
constexpr Index sequences = 16;

Batch random_batch() {
  const Philox random(1, 2);
  const auto vocabulary = static_cast<std::uint32_t>(shape.vocabulary);
  Batch batch{.sequences = sequences, .length = shape.positions};
  for (Index i = 0; i < batch.sequences * batch.length; ++i) {
    const auto words = random.block(static_cast<std::uint64_t>(i));
    batch.tokens.push_back(static_cast<std::int32_t>(words[0] % vocabulary));
    batch.targets.push_back(static_cast<std::int32_t>(words[1] % vocabulary));
  }
  return batch;
}

template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A trainer that records its steps.
template <class Policy, int Ranks = 2>
class Run {
 public:
  Run() {
    trainer_.step(batch_);  // touches all memory
    trainer_.record(true);
  }

  trace::Timeline step() {
    loss_ = trainer_.step(batch_).loss;
    return trace::recorded(trainer_)[0];
  }

  const schedule::Pipeline& pipeline() const { return trainer_.plan().pipeline; }
  double loss() const { return loss_; }  // of the last step

 private:
  using T = Trainer<Gpt, Config<Parallelism<1, Ranks, 1>, Schedule<Policy>>>;

  Batch batch_ = random_batch();
  ThreadWorld world_{Ranks};
  T trainer_{
      shape,
      world_,
      {.batch = sequences, .sequence = shape.positions, .microbatches = microbatches, .threads_per_rank = 1}};
  double loss_ = 0;
};

// Of each stage, in nanoseconds: the medians of what its passes took in a step.
std::vector<schedule::Cost> costs(const trace::Timeline& step) {
  const std::size_t stages = step.stage_of.size();
  std::array<std::vector<std::vector<schedule::Time>>, 4> taken;  // [pass][stage]
  taken.fill(std::vector<std::vector<schedule::Time>>(stages));
  for (int rank = 0; rank < step.ranks(); ++rank) {
    for (const trace::Block& block : step.lanes[rank].blocks) {
      const schedule::Action& action = block.actions[0];
      const int stage = step.stage(rank, action.chunk);
      taken[static_cast<std::size_t>(action.pass)][stage].push_back(block.end - block.start);
    }
  }
  const auto of = [&](schedule::Pass pass, std::size_t stage) {
    return median(taken[static_cast<std::size_t>(pass)][stage]);
  };
  std::vector<schedule::Cost> result;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    result.push_back({.forward = of(schedule::Pass::forward, stage),
                      .backward_input = of(schedule::Pass::backward_input, stage),
                      .backward_weight = of(schedule::Pass::backward_weight, stage)});
  }
  return result;
}

// Steps of both runs alternate, and each is held against the prediction from the one before it, so that a
// machine which has other work to do as well slows both alike.
template <class Policy>
void step_prediction(benchmark::State& state) {
  Run<std::conditional_t<Policy::chunks == 1, ZeroBubbleH1, ZeroBubbleV>> apart;
  Run<Policy> run;
  std::vector<double> predicted, measured, ratio;  // milliseconds
  for (auto _ : state) {
    predicted.push_back(
        1e-6 * static_cast<double>(schedule::simulate(run.pipeline(), costs(apart.step())).makespan));
    measured.push_back(1e-6 * static_cast<double>(run.step().makespan));
    ratio.push_back(measured.back() / predicted.back());
    state.SetIterationTime(1e-3 * measured.back());
  }
  state.counters["predicted_ms"] = median(predicted);
  state.counters["measured_ms"] = median(measured);
  state.counters["ratio"] = median(ratio);
}

double expected_loss() {
  static const double loss = [] {
    Run<OneFOneB, 1> run;
    run.step();
    return run.loss();
  }();
  return loss;
}

template <class Policy>
void add(const char* name) {
  Run<Policy> run;
  run.step();
  if (run.loss() != expected_loss()) {
    std::fprintf(stderr, "step_prediction: the loss of %s is %.17g, one rank's is %.17g\n", name, run.loss(),
                 expected_loss());
    std::exit(EXIT_FAILURE);
  }
  benchmark::RegisterBenchmark(name, step_prediction<Policy>)
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime()
      ->Iterations(21);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  add<GPipe>("GPipe");
  add<OneFOneB>("OneFOneB");
  add<Interleaved<2>>("Interleaved<2>");
  add<ZeroBubbleH1>("ZeroBubbleH1");
  add<ZeroBubbleH2>("ZeroBubbleH2");
  add<ZeroBubbleV>("ZeroBubbleV");
  add<DualPipeV>("DualPipeV");
  benchmark::RunSpecifiedBenchmarks();
}
