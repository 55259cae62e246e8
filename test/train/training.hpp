// A few steps of training under a layout, and all that they compute.
#pragma once

#include <vector>

#include <trilith/comm/thread_world.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/train/trainer.hpp>
#include <trilith/train/trainer_options.hpp>

#include "test/reference/random.hpp"
#include "test/support/gather.hpp"

namespace trilith::test {

struct Training {
  std::vector<double> losses;
  std::vector<double> norms;
  WholeTensors gradients;  // of the last step
  WholeTensors weights;
  friend bool operator==(const Training&, const Training&) = default;
};

// Three steps, each on `sequences` of 11 tokens.
template <class Layout, template <class> class Model = Gpt>
Training train(const typename Trainer<Model, Layout>::Shape& shape, Index sequences, int microbatches) {
  using T = Trainer<Model, Layout>;
  constexpr Index length = 11;
  ThreadWorld world(T::parallel.world());
  T trainer(shape, world,
            {.batch = sequences,
             .sequence = length,
             .microbatches = microbatches,
             .threads_per_rank = 1,
             .poison = true});
  Training result;
  for (int step = 0; step < 3; ++step) {
    const StepReport report = trainer.step(reference::random_batch(shape, sequences, length, 5 + step));
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradient_norm);
  }
  std::vector<const Parameters<Host>*> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(&trainer.rank(rank).parameters());
  result.gradients = gather(T::Model::tensors(shape), ranks, &Parameter<float>::gradient);
  result.weights = gather(T::Model::tensors(shape), ranks, &Parameter<float>::value);
  return result;
}

}  // namespace trilith::test
