// GPT-2 weights in a safetensors file, with the names and layouts of Hugging Face's transformers.
//
// The names are those of nn/gpt_tensors.hpp, with or without the prefix `transformer.`.
//
// The one thing that the tensors do not say is the number of heads. It is taken from a `config.json` beside
// the file, from `n_head` in the file's own metadata, and from the caller; those that speak must agree.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include <trilith/core/error.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/gpt_tensors.hpp>
#include <trilith/train/model_checkpoint.hpp>

namespace trilith::inline v0 {

// An open GPT-2 checkpoint: every weight is there, in its right shape and readable as float.
class Gpt2Checkpoint : public ModelCheckpoint {
 public:
  explicit Gpt2Checkpoint(const std::filesystem::path& path, std::optional<int> heads = {})
      : ModelCheckpoint(path,
                        {.model = "GPT-2",
                         .hugging_face = "GPT2LMHeadModel",
                         .tensors = "gpt2_tensors",
                         .layout = "(in, out)",
                         .prefix = "transformer.",
                         .layers = layers,
                         .first_of_layer = "ln_1.weight"},
                        is_mask) {
    std::tie(shape_.vocabulary, shape_.hidden) = extents("wte.weight", "(entries, hidden)");
    shape_.positions = extents("wpe.weight", "(entries, hidden)").first;
    shape_.layers = count_layers();
    check_tensors(gpt2_tensors(shape_), shape_.hidden, shape_.layers, output_head);
    check_tied_head(output_head, "wte.weight", "GPT-2");
    check_config();
    find_heads(heads);
  }

  const GptShape& shape() const { return shape_; }

 private:
  static constexpr const char* layers = "h.";
  static constexpr const char* output_head = "lm_head.weight";

  // Causal masks, which old versions of transformers saved with the weights.
  static bool is_mask(std::string_view name) {
    return layer_of(name, layers) && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  }

  void find_heads(std::optional<int> asked_for) {
    Stated<int> heads{.key = "n_head", .what = "heads"};
    if (asked_for) agree(heads, asked_for, "the number asked for");
    read(heads);
    if (heads.from.empty()) {
      throw Error(name() + " does not say how many attention heads the model has",
                  "put the model's config.json beside it, or give the number of heads");
    }
    shape_.heads = heads.value;
    if (shape_.heads < 1 || shape_.hidden % shape_.heads != 0) {
      throw Error(name() + " has hidden size " + std::to_string(shape_.hidden) +
                      ", which cannot be split over " + std::to_string(shape_.heads) + " heads (from " +
                      heads.from + ")",
                  "give the number of heads that the model was trained with");
    }
  }

  void check_config() const {
    expect("model_type", "gpt2");
    expect("vocab_size", shape_.vocabulary);
    expect("n_positions", shape_.positions);
    expect("n_embd", shape_.hidden);
    expect("n_layer", shape_.layers);
    expect("n_inner", shape_.feed_forward(), nullptr);
    expect("activation_function", "gelu_new", "gelu_pytorch_tanh");
    expect("layer_norm_epsilon", 1e-5);
    expect("scale_attn_weights", true);
    expect("scale_attn_by_inverse_layer_idx", false);
    expect("tie_word_embeddings", true);
    expect("add_cross_attention", false);
  }

  GptShape shape_{.heads = 0};
};

}  // namespace trilith::inline v0
