// Llama weights in a safetensors file, with the names and layouts of Hugging Face's LlamaForCausalLM: those
// of nn/llama_tensors.hpp.
//
// The tensors do not say the number of heads, the longest sequence, the base of the rotary embedding and the
// epsilon of the norms. These are taken from a `config.json` beside the file, and from the file's own
// metadata under the same names, as Trilith writes them; where both speak they must agree.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include <trilith/core/error.hpp>
#include <trilith/nn/llama_shape.hpp>
#include <trilith/nn/llama_tensors.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/train/model_checkpoint.hpp>

namespace trilith::inline v0 {

// An open Llama checkpoint: every weight is there, in its right shape and readable as float.
class LlamaCheckpoint : public ModelCheckpoint {
 public:
  explicit LlamaCheckpoint(const std::filesystem::path& path)
      : ModelCheckpoint(path,
                        {.model = "Llama",
                         .hugging_face = "LlamaForCausalLM",
                         .tensors = "llama_tensors",
                         .layout = "(out, in)",
                         .prefix = "",
                         .layers = "model.layers.",
                         .first_of_layer = "input_layernorm.weight"},
                        is_frequencies) {
    check_kind();
    std::tie(shape_.vocabulary, shape_.hidden) = extents(embedding, "(entries, hidden)");
    shape_.layers = count_layers();
    shape_.feed_forward = extents("model.layers.0.mlp.gate_proj.weight", "(feed-forward, hidden)").first;
    read_numbers();
    find_heads();
    find_head_table();
    check_tensors(llama_tensors(shape_), shape_.hidden, shape_.layers, output_head);
    if (shape_.tied) check_tied_head(output_head, embedding, config_path().string());
    check_numbers();
  }

  const LlamaShape& shape() const { return shape_; }

 private:
  // Of the rotary embedding, which Llama 2 and older files have in every layer: rope_theta says the same.
  static bool is_frequencies(std::string_view name) {
    return name.ends_with(".self_attn.rotary_emb.inv_freq");
  }

  static constexpr const char* embedding = "model.embed_tokens.weight";
  static constexpr const char* output_head = "lm_head.weight";

  template <class T>
  T stated(const char* key, const char* what) const {
    Stated<T> number{.key = key, .what = what};
    read(number);
    return known(number);
  }

  template <class T>
  T known(const Stated<T>& number) const {
    if (number.from.empty()) {
      throw Error(name() + " does not say " + number.key, "put the model's config.json beside it");
    }
    return number.value;
  }

  void read_numbers() {
    shape_.heads = stated<int>("num_attention_heads", "heads");
    shape_.positions = stated<int>("max_position_embeddings", "positions");
    shape_.norm_epsilon = stated<float>("rms_norm_eps", "for the epsilon of its norms");
    Stated<float> theta{.key = "rope_theta", .what = "for the base of its rotary embedding"};
    read(theta);
    // Where transformers writes it from version 5 on.
    const auto parameters = config().find("rope_parameters");
    if (parameters != config().end()) agree(theta, plain_theta(*parameters), config_path().string());
    // A config.json of before there was a choice.
    if (theta.from.empty() && config().contains("model_type"))
      agree(theta, std::optional(10000.0f), "an old config.json");
    shape_.rope_theta = known(theta);
  }

  // That of a rotary embedding which is not scaled.
  std::optional<float> plain_theta(const Json& parameters) const {
    if (!parameters.is_object()) return {};
    for (const auto& [key, value] : parameters.items()) {
      if (key != "rope_theta" && !(key == "rope_type" && value == "default")) {
        throw Error(config_path().string() + " says more of rope_parameters than rope_theta: " + key,
                    "give a model whose rotary embedding is not scaled");
      }
    }
    return parameters.contains("rope_theta") ? number<float>(parameters["rope_theta"]) : std::nullopt;
  }

  // The dimension of a head, and the key/value heads, from the tensors once the heads are known.
  void find_heads() {
    const int queries = extents("model.layers.0.self_attn.q_proj.weight", "(queries, hidden)").first;
    const int keys = extents("model.layers.0.self_attn.k_proj.weight", "(keys, hidden)").first;
    const auto heads = [&] {
      return std::to_string(queries) + " queries and " + std::to_string(keys) + " keys, which " +
             std::to_string(shape_.heads) + " heads cannot share";
    };
    if (shape_.heads < 1 || queries % shape_.heads != 0) refuse("it has " + heads());
    shape_.head_dimension = queries / shape_.heads;
    if (keys % shape_.head_dimension != 0) refuse("it has " + heads());
    shape_.kv_heads = keys / shape_.head_dimension;
  }

  void find_head_table() {
    const auto said = config().find("tie_word_embeddings");
    const bool has_own = find(output_head) != nullptr;
    shape_.tied = !has_own || (said != config().end() && *said == true);
  }

  // What every model has in common that this library computes.
  void check_kind() const {
    expect("model_type", "llama");
    expect("hidden_act", "silu");
    expect("attention_bias", false);
    expect("mlp_bias", false);
    expect("rope_scaling", nullptr);
  }

  void check_numbers() const {
    expect("vocab_size", shape_.vocabulary);
    expect("hidden_size", shape_.hidden);
    expect("num_hidden_layers", shape_.layers);
    expect("num_key_value_heads", shape_.kv_heads);
    expect("head_dim", shape_.head_dimension, nullptr);
    expect("intermediate_size", shape_.feed_forward);
    expect("tie_word_embeddings", shape_.tied);
    try {
      check(shape_, ParallelShape{});
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  LlamaShape shape_;
};

}  // namespace trilith::inline v0
