// What a trainer is told besides its layout, and what it reports.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/optim/adamw.hpp>
#include <trilith/optim/learning_rate.hpp>
#include <trilith/optim/loss_scale.hpp>
#include <trilith/parallel/parallelism.hpp>

namespace trilith::inline v0 {

struct TrainerOptions {
  Index batch = 8;                         // sequences of a step, over all data ranks
  Index sequence = 128;                    // tokens of a sequence
  int microbatches = 1;                    // of each data rank, per step; left out with Microbatches<M>
  std::vector<int> layers_per_stage = {};  // empty: by cost
  AdamW optimizer = {};                    // its learning_rate is set from the schedule
  CosineSchedule learning_rate = {};
  LossScaling loss_scaling = {};  // of Precision<F16>
  double clip = 1.0;              // the largest norm of all gradients; 0 does not clip
  std::uint64_t seed = 0;         // of the initial weights
  int threads_per_rank = 0;       // 0: the cores of this machine, divided by the ranks
  Index bucket = Index{1} << 22;  // elements of a gradient bucket
  Padding padding = Padding::no;  // whether context ranks may split a sequence that does not divide
  bool poison = false;            // fill new memory with NaN, for tests
};

struct StepReport {
  std::int64_t step = 0;
  double loss = 0;           // mean over the valid tokens of the global batch
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  Index valid_tokens = 0;
  double loss_scale = 1;  // that the gradients were computed with, and are still multiplied by
  bool skipped = false;   // at this scale they overflowed: the weights are as they were, the scale was told

  // Whether it is a step to take.
  bool sound() const { return valid_tokens > 0 && std::isfinite(loss) && std::isfinite(gradient_norm); }
};

// Bytes that one rank holds.
struct MemoryReport {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t moments = 0;
  std::size_t activations = 0;  // of all slots, with the gradients in flight and scratch
  std::size_t peak = 0;         // of everything that was ever allocated at once
};

// Throws where a number is out of its range.
inline void check(const TrainerOptions& options) {
  const auto require_number = [](double value, const char* name) {
    require(std::isfinite(value) && value >= 0, std::string(name) + " is " + std::to_string(value),
            "give a finite number that is not negative");
  };
  require_number(options.learning_rate.peak, "the learning rate");
  require_number(options.learning_rate.least, "the least learning rate");
  require_number(options.clip, "the largest norm of the gradients (clip)");
  require_number(options.optimizer.weight_decay, "the weight decay");
  const LossScaling& scaling = options.loss_scaling;
  const auto is_power_of_two = [](double x) {
    int exponent = 0;
    return std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
  };
  require(is_power_of_two(scaling.initial) && is_power_of_two(scaling.least) &&
              scaling.least <= scaling.initial && scaling.window > 0 && scaling.hysteresis > 0,
          "a loss scale from " + std::to_string(scaling.initial) + " down to " +
              std::to_string(scaling.least) + ", with a window of " + std::to_string(scaling.window) +
              " steps and a hysteresis of " + std::to_string(scaling.hysteresis),
          "give powers of two, the initial scale not below the least, and at least 1 for the others");
  constexpr Index most = Index{1} << 31;
  require(options.batch <= most && options.sequence <= most,
          "batch=" + std::to_string(options.batch) + ", sequence=" + std::to_string(options.sequence),
          "neither may be above 2^31");
  require(options.bucket > 0, "a gradient bucket of " + std::to_string(options.bucket) + " elements",
          "give at least 1");
  constexpr int most_threads = 1024;
  require(options.threads_per_rank >= 0 && options.threads_per_rank <= most_threads,
          std::to_string(options.threads_per_rank) + " threads for each rank",
          "give 0 for cores / ranks, or at most " + std::to_string(most_threads));
}

// Sequences of one microbatch. Throws where the batch does not divide.
inline Index microbatch_size(const TrainerOptions& options, const ParallelShape& shape) {
  require(options.batch > 0 && options.sequence > 0 && options.microbatches > 0,
          "batch=" + std::to_string(options.batch) + ", sequence=" + std::to_string(options.sequence) +
              ", microbatches=" + std::to_string(options.microbatches),
          "each must be at least 1");
  const Index parts = Index{shape.data} * options.microbatches;
  require(options.batch % parts == 0,
          "a batch of " + std::to_string(options.batch) +
              " sequences cannot be divided over DP=" + std::to_string(shape.data) + " data ranks and " +
              std::to_string(options.microbatches) + " microbatches",
          "make the batch a multiple of " + std::to_string(parts));
  return options.batch / parts;
}

inline int threads_per_rank(const TrainerOptions& options, const ParallelShape& shape) {
  if (options.threads_per_rank > 0) return options.threads_per_rank;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / shape.world());
}

}  // namespace trilith::inline v0
