// A small random Llama as Hugging Face's transformers saved it, with what PyTorch computed from it in
// float64. make_llama_fixture.py made it and says how.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "test/reference/fixture.hpp"
#include "test/reference/llama.hpp"

namespace trilith::reference {

struct LlamaFixture {
  LlamaConfig config;
  Weights weights;  // every value is a float
  Batch batch;      // sequences differ in how many targets count
  Values logits;    // (sequences, length, vocabulary)
  double loss;
  Weights gradients;
};

// Holds config.json, model.safetensors and figures.json.
inline std::filesystem::path llama_fixture_folder() {
  return fixture_folder("llama_fixture");
}

inline LlamaFixture llama_fixture() {
  const std::filesystem::path folder = llama_fixture_folder();
  const auto config = nlohmann::json::parse(contents(folder / "config.json"));
  const auto figures = nlohmann::json::parse(contents(folder / "figures.json"));
  return {
      .config = {.layers = config.at("num_hidden_layers"),
                 .hidden = config.at("hidden_size"),
                 .heads = config.at("num_attention_heads"),
                 .kv_heads = config.at("num_key_value_heads"),
                 .dimension = config.at("head_dim"),
                 .feed_forward = config.at("intermediate_size"),
                 .vocabulary = config.at("vocab_size"),
                 .theta = config.at("rope_parameters").at("rope_theta"),
                 .epsilon = config.at("rms_norm_eps"),
                 .tied = config.at("tie_word_embeddings")},
      .weights = read_safetensors(folder / "model.safetensors", ""),
      .batch = {.sequences = figures.at("sequences"),
                .length = figures.at("length"),
                .tokens = figures.at("tokens"),
                .targets = figures.at("targets")},
      .logits = figures.at("logits"),
      .loss = figures.at("loss"),
      .gradients = figures.at("gradients"),
  };
}

}  // namespace trilith::reference
