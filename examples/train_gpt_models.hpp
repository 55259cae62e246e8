// The models that train_gpt can train: what each is with given options, and how its checkpoints are opened.
#pragma once

#include <optional>
#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/llama.hpp>
#include <trilith/train/gpt2_checkpoint.hpp>
#include <trilith/train/llama_checkpoint.hpp>

#include "train_gpt_options.hpp"

inline constexpr int default_heads = 4;

struct GptKind {
  template <class L>
  using Model = trilith::Gpt<L>;
  using Checkpoint = trilith::Gpt2Checkpoint;

  static trilith::GptShape shape(const TrainGptOptions& options,
                                 const std::optional<Checkpoint>& checkpoint) {
    trilith::require(!options.describes_llama() && !options.replicate_kv_heads,
                     "--kv-heads, --replicate-kv-heads, --feed-forward and --tied describe a Llama",
                     "add --model llama, or leave them out");
    if (checkpoint) return checkpoint->shape();
    return {.layers = options.layers,
            .hidden = options.hidden,
            .heads = options.heads.value_or(default_heads),
            .positions = static_cast<int>(options.trainer.sequence),
            .vocabulary = options.vocabulary};
  }

  static void open(const TrainGptOptions& options, std::optional<Checkpoint>& checkpoint) {
    checkpoint.emplace(options.init, options.heads);
  }
};

struct LlamaKind {
  template <class L>
  using Model = trilith::Llama<L>;
  using Checkpoint = trilith::LlamaCheckpoint;

  static trilith::LlamaShape shape(const TrainGptOptions& options,
                                   const std::optional<Checkpoint>& checkpoint) {
    trilith::LlamaShape shape = checkpoint ? checkpoint->shape() : described(options);
    shape.replicate_kv_heads = options.replicate_kv_heads;
    return shape;
  }

  static void open(const TrainGptOptions& options, std::optional<Checkpoint>& checkpoint) {
    trilith::require(!options.heads, "--init takes the heads of a Llama from the checkpoint",
                     "leave out --heads");
    checkpoint.emplace(options.init);
  }

 private:
  static trilith::LlamaShape described(const TrainGptOptions& options) {
    const int heads = options.heads.value_or(default_heads);
    trilith::require(heads > 0 && options.hidden % heads == 0,
                     "--hidden " + std::to_string(options.hidden) + " cannot be split over --heads " +
                         std::to_string(heads),
                     "hidden must be a multiple of heads");
    const trilith::Index wide = (trilith::Index{options.hidden} + 2) / 3 * 8;
    return {.layers = options.layers,
            .hidden = options.hidden,
            .heads = heads,
            .kv_heads = options.kv_heads.value_or(heads),
            .head_dimension = options.hidden / heads,
            .feed_forward = options.feed_forward.value_or(static_cast<int>(wide)),
            .positions = static_cast<int>(options.trainer.sequence),
            .vocabulary = options.vocabulary,
            .rope_theta = 10000,
            .tied = options.tied};
  }
};
