#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <trilith/core/random.hpp>
#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "bench/gpu/gemm.hpp"
#include "bench/gpu/train_step.hpp"

namespace trilith::bench {
namespace {

using GpuTrainer = Trainer<Gpt, Config<Parallelism<1, 1, 1>, Device<Cuda>, Precision<Bf16>>>;

Batch random_batch(const GptShape& shape, Index sequences, Index length) {
  const Philox random(1, 2);
  Batch batch{.sequences = sequences, .length = length};
  for (Index i = 0; i < sequences * length; ++i) {
    const auto words = random.block(static_cast<std::uint64_t>(i));
    const auto vocabulary = static_cast<std::uint32_t>(shape.vocabulary);
    batch.tokens.push_back(static_cast<std::int32_t>(words[0] % vocabulary));
    batch.targets.push_back(static_cast<std::int32_t>(words[1] % vocabulary));
  }
  return batch;
}

double model_flops(const GptShape& shape, Index tokens, Index sequence) {
  return static_cast<double>(tokens) * (6.0 * static_cast<double>(shape.parameters()) +
                                        12.0 * shape.layers * shape.hidden * static_cast<double>(sequence));
}

// The median of the steps' times in seconds, after three that do not count. The learning rate falls with the
// width, so that the loss falls from the first step on.
double train(const std::string& name, const GptShape& shape, Index sequences, Index sequence,
             int microbatches) {
  constexpr int warm_up = 3;
  constexpr int steps = 10;
  CudaThreadWorld world(1);
  GpuTrainer trainer(shape, world,
                     {.batch = sequences,
                      .sequence = sequence,
                      .microbatches = microbatches,
                      .learning_rate = {.peak = 0.1 / shape.hidden},
                      .seed = 1});
  const Batch batch = random_batch(shape, sequences, sequence);
  std::vector<double> losses;
  std::vector<double> seconds;
  for (int step = 0; step < warm_up + steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    losses.push_back(trainer.step(batch).loss);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (step >= warm_up) seconds.push_back(time.count());
  }
  // Before it has learned anything a model finds all tokens about as likely.
  const double first = std::log(static_cast<double>(shape.vocabulary));
  prove(name + ", the first loss", std::abs(losses.front() / first - 1), 0.1);
  prove(name + ", the last loss over the first", losses.back() / losses.front(), 0.9999);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

void measure_training(bool small, Results& results) {
  if (small) {
    train("train_step", {.layers = 2, .hidden = 128, .heads = 2, .positions = 64, .vocabulary = 256}, 4, 64,
          2);
    return;
  }
  const double limit = gemm_rate(results);
  const auto measure = [&](const std::string& name, const GptShape& shape, Index sequences, Index sequence,
                           int microbatches) {
    const Index tokens = sequences * sequence;
    const double seconds = train(name, shape, sequences, sequence, microbatches);
    const double rate = model_flops(shape, tokens, sequence) / seconds;
    results.add({name + "/time", 1e3 * seconds, "ms"});
    results.add({name + "/tokens", static_cast<double>(tokens) / seconds, "tokens/s"});
    results.add({name + "/model", rate * 1e-12, "TFLOP/s", rate / limit, gemm_limit});
  };
  measure("train_step/gpt_124M/16x1024",
          {.layers = 12, .hidden = 768, .heads = 12, .positions = 1024, .vocabulary = 50304}, 16, 1024, 1);
  measure("train_step/gpt_1.3B/8x2048",
          {.layers = 24, .hidden = 2048, .heads = 16, .positions = 2048, .vocabulary = 50304}, 8, 2048, 1);
}

}  // namespace trilith::bench
