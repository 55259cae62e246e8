// A schedule of one's own: 1F1B with one more warm-up forward, which hides the time that a message takes and
// costs one more microbatch in flight.
//
// A policy is a type that says where stages lie, what each rank does in which order, and how many
// microbatches a rank promises to hold. The library derives all else from that: the compiler proves the
// schedule's laws, the simulator tells what it takes, it can be drawn, and a Trainer trains with it.
//
//     ./bazelw run //examples:own_schedule

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <trilith/schedule/laws.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/trace/terminal.hpp>
#include <trilith/trace/timeline.hpp>
#include <trilith/trilith.hpp>

using namespace trilith;

struct EagerOneFOneB {
  static constexpr const char* name = "EagerOneFOneB";
  static constexpr int chunks = 1;

  static constexpr int stage_of(int rank, int /*chunk*/, int /*ranks*/) { return rank; }

  static constexpr int warm_up(int rank, int ranks) { return 2 * (ranks - 1 - rank); }

  static constexpr int peak_in_flight(int rank, int ranks, int microbatches) {
    return std::min(warm_up(rank, ranks) + 1, microbatches);
  }

  static constexpr schedule::Program program(int rank, int ranks, int microbatches) {
    using enum schedule::Pass;
    schedule::Program actions;
    int f = 0;
    // 1. Warm-up: min(2(p − 1 − r), m) forwards.
    while (f < std::min(warm_up(rank, ranks), microbatches)) actions.push_back({forward, f++, 0});
    // 2. Steady and drain: a forward while any are left, and a backward.
    for (int b = 0; b < microbatches; ++b) {
      if (f < microbatches) actions.push_back({forward, f++, 0});
      actions.push_back({backward, b, 0});
    }
    return actions;
  }
};

constexpr int p = 4, m = 8;

// Each microbatch once, in order, without deadlock, within the promised peak.
static_assert(schedule::verify(schedule::make_pipeline<EagerOneFOneB>(p, m)) == schedule::Verdict{});

// Where messages take time it ends earlier than 1F1B; where they take none, at the same time.
static_assert(schedule::simulate<EagerOneFOneB>(p, m, {.message = 1}).makespan <
              schedule::simulate<OneFOneB>(p, m, {.message = 1}).makespan);
static_assert(schedule::simulate<EagerOneFOneB>(p, m).makespan ==
              schedule::simulate<OneFOneB>(p, m).makespan);

template <class Policy>
void draw() {
  const schedule::Pipeline pipeline = schedule::make_pipeline<Policy>(p, m);
  const std::vector<schedule::Cost> costs(p, schedule::Cost{.message = 1});
  const schedule::Simulation simulation = schedule::simulate(pipeline, costs);
  std::printf("%s\n",
              trace::terminal(trace::make_timeline(Policy::name, pipeline, simulation, costs)).c_str());
}

// Sequences that count upwards from anywhere, modulo the vocabulary.
Batch counting(Index sequences, Index length, std::int32_t vocabulary, std::int32_t step) {
  Batch batch{.sequences = sequences, .length = length};
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t t = 0; t < length; ++t) {
      const std::int32_t token = 7 * step + 3 * s + t;
      batch.tokens.push_back(token % vocabulary);
      batch.targets.push_back((token + 1) % vocabulary);
    }
  }
  return batch;
}

void train() {
  using Layout = Config<Parallelism<1, p, 1>, Schedule<EagerOneFOneB>>;
  const GptShape shape{.layers = 4, .hidden = 32, .heads = 4, .positions = 16, .vocabulary = 32};
  const TrainerOptions options{.batch = 16,
                               .sequence = 16,
                               .microbatches = m,
                               .learning_rate = {.peak = 1e-2, .warm_up = 5, .steps = 40}};
  ThreadWorld world(p);
  Trainer<Gpt, Layout> trainer{shape, world, options};
  for (int step = 1; step <= 40; ++step) {
    const Batch batch = counting(options.batch, options.sequence, shape.vocabulary, step);
    const StepReport report = trainer.step(batch);
    if (step == 1 || step % 10 == 0) std::printf("step %2d  loss %.4f\n", step, report.loss);
  }
}

int main() {
  draw<OneFOneB>();
  draw<EagerOneFOneB>();
  train();
}
