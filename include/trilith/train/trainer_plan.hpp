// What all ranks of a trainer agree on before the first step.
#pragma once

#include <vector>

#include <trilith/mask/split.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/parallel/stage_range.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/train/trainer_options.hpp>

namespace trilith::inline v0 {

template <class Model>
struct TrainerPlan {
  typename Model::Shape model;
  ParallelShape parallel;
  schedule::Pipeline pipeline;
  std::vector<std::vector<schedule::Exchange>> exchanges;  // of each pipeline rank
  std::vector<StageRange> stages;
  TrainerOptions options;

  // How each sequence is split over the context ranks. Throws where it cannot be.
  using Split = SequenceSplit<typename Model::layer_config::attention::split>;
  Split split() const { return {options.sequence, parallel.context, options.padding}; }

  // Of a microbatch, on one rank.
  TokenShape tokens() const { return {microbatch_size(options, parallel), split().rows()}; }
};

}  // namespace trilith::inline v0
