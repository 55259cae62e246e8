// A step of training (forward, backward, update) against the machine's own matrix products.
//
//     ./bazelw run //bench:train_step
//
// Each row shows tokens/s and the share of oneDNN's float32 GEMM rate (n = 2048, all cores), measured in the
// same run right before and after. Model FLOPs are 6 · parameters · tokens + 12 · layers · hidden · sequence
// · tokens: attention counted in full, so that skipping what the causal mask hides shows as a gain.
// First the result is proved: every layout gives the loss of one rank.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <trilith/core/random.hpp>
#include <trilith/trilith.hpp>

using namespace trilith;

namespace {

using OneRank = Config<Parallelism<1, 1, 1>>;
using Tensor2 = Config<Parallelism<2, 1, 1>>;
using Data2 = Config<Parallelism<1, 1, 2>>;
using Pipeline2 = Config<Parallelism<1, 2, 1>>;

constexpr GptShape gpt2_124m{};
constexpr GptShape small{.layers = 4, .hidden = 256, .heads = 4, .positions = 256, .vocabulary = 256};

int cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Batch random_batch(const GptShape& shape, Index sequences, Index length) {
  const Philox random(1, 2);
  Batch batch{.sequences = sequences, .length = length};
  for (Index i = 0; i < sequences * length; ++i) {
    const auto words = random.block(static_cast<std::uint64_t>(i));
    batch.tokens.push_back(
        static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(shape.vocabulary)));
    batch.targets.push_back(
        static_cast<std::int32_t>(words[1] % static_cast<std::uint32_t>(shape.vocabulary)));
  }
  return batch;
}

// FLOP/s of an n = 2048 product on all cores: the best of a few.
double gemm_rate() {
  constexpr Index n = 2048;
  static std::vector<float> a(n * n, 1e-3f), b(n * n, 1e-3f), c(n * n);
  const Host::Stream stream(cores());
  double best = 0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    ops::gemm(stream, ops::Transpose::no, Matrix<const float>(a.data(), {n, n}), ops::Transpose::no,
              Matrix<const float>(b.data(), {n, n}), Matrix<float>(c.data(), {n, n}));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * n * n * n / seconds);
  }
  return best;
}

double model_flops(const GptShape& shape, Index tokens, Index sequence) {
  return 6.0 * static_cast<double>(shape.parameters()) * static_cast<double>(tokens) +
         12.0 * shape.layers * shape.hidden * static_cast<double>(sequence) * static_cast<double>(tokens);
}

// The share of its ranks' time that a pipeline can use at best: its bubble, and stages of unequal cost.
template <class Layout>
double attainable(const GptShape& shape, const TrainerPlan<typename Trainer<Gpt, Layout>::Model>& plan) {
  const ModelCost cost = Trainer<Gpt, Layout>::Model::cost(shape, plan.options.sequence);
  double sum = 0;
  double largest = 0;
  for (const StageRange& stage : plan.stages) {
    double stage_cost = (stage.first ? cost.before : 0) + (stage.last ? cost.after : 0);
    for (int i = 0; i < stage.layers; ++i) stage_cost += cost.layers[stage.first_layer + i];
    sum += stage_cost;
    largest = std::max(largest, stage_cost);
  }
  const double p = plan.parallel.pipeline;
  const double m = plan.options.microbatches;
  return sum / (p * largest) * m / (m + p - 1);
}

std::map<std::string, double>& one_rank_rates() {
  static std::map<std::string, double> rates;  // tokens/s of one rank on all cores, by workload
  return rates;
}

template <class Layout>
void train_step(benchmark::State& state, const std::string& workload, const GptShape& shape, Index batch,
                Index sequence, int microbatches) {
  using GptTrainer = Trainer<Gpt, Layout>;
  ThreadWorld world(GptTrainer::parallel.world());
  GptTrainer trainer(shape, world,
                     {.batch = batch, .sequence = sequence, .microbatches = microbatches, .seed = 1});
  const Batch data = random_batch(shape, batch, sequence);
  trainer.step(data);  // touches all memory

  const double rate_before = gemm_rate();
  double seconds = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(trainer.step(data));
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double rate = std::max(rate_before, gemm_rate());

  const double steps = static_cast<double>(state.iterations());
  const Index tokens = batch * sequence;
  const double tokens_per_second = steps * static_cast<double>(tokens) / seconds;
  state.counters["tokens/s"] = tokens_per_second;
  state.counters["of_gemm_%"] = 100 * model_flops(shape, tokens, sequence) * steps / seconds / rate;

  double peak = 0;
  double needed = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const MemoryReport memory = trainer.rank(rank).memory();
    peak += static_cast<double>(memory.peak);
    needed += static_cast<double>(memory.parameters + memory.gradients + memory.moments + memory.activations);
  }
  state.counters["peak_MB"] = peak * 1e-6;
  state.counters["peak/needed"] = peak / needed;

  if constexpr (GptTrainer::parallel.world() == 1) {
    one_rank_rates()[workload] = tokens_per_second;
  } else if (one_rank_rates().contains(workload)) {
    const double allowed = attainable<Layout>(shape, trainer.plan());
    state.counters["of_one_rank_%"] = 100 * tokens_per_second / one_rank_rates()[workload] / allowed;
  }
}

template <class Layout>
double first_loss(const GptShape& shape) {
  ThreadWorld world(Trainer<Gpt, Layout>::parallel.world());
  Trainer<Gpt, Layout> trainer(shape, world, {.batch = 4, .sequence = 19, .microbatches = 2, .seed = 3});
  return trainer.gradients(random_batch(shape, 4, 19)).loss;
}

void prove() {
  const GptShape shape{.layers = 3, .hidden = 40, .heads = 4, .positions = 23, .vocabulary = 91};
  const double expected = first_loss<OneRank>(shape);
  for (const double loss :
       {first_loss<Tensor2>(shape), first_loss<Data2>(shape), first_loss<Pipeline2>(shape)}) {
    if (!(std::abs(loss - expected) < 1e-5 * expected)) {
      std::fprintf(stderr, "train_step: a layout's loss is %.8f, one rank's is %.8f\n", loss, expected);
      std::exit(EXIT_FAILURE);
    }
  }
}

template <class Layout>
void add(const char* layout, const char* workload, const GptShape& shape, Index batch, Index sequence,
         int microbatches) {
  benchmark::RegisterBenchmark((std::string(workload) + "/" + layout).c_str(),
                               [=](benchmark::State& state) {
                                 train_step<Layout>(state, workload, shape, batch, sequence, microbatches);
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->MinTime(3.0);
}

}  // namespace

int main(int argc, char** argv) {
  prove();
  add<OneRank>("one_rank", "gpt2_124M_1x1024", gpt2_124m, 1, 1024, 1);
  add<OneRank>("one_rank", "gpt2_124M_4x64", gpt2_124m, 4, 64, 1);
  add<OneRank>("one_rank", "small_4x256", small, 4, 256, 1);
  add<OneRank>("one_rank", "gpt2_124M_8x256", gpt2_124m, 8, 256, 1);
  add<Tensor2>("TP=2", "gpt2_124M_8x256", gpt2_124m, 8, 256, 1);
  add<Data2>("DP=2", "gpt2_124M_8x256", gpt2_124m, 8, 256, 1);
  add<Pipeline2>("PP=2,m=8", "gpt2_124M_8x256", gpt2_124m, 8, 256, 8);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
