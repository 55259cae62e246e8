// A small random GPT-2 as Hugging Face's transformers saved it, with what PyTorch computed from it in
// float64. make_gpt2_fixture.py made it and says how.
#pragma once

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "test/reference/adamw.hpp"
#include "test/reference/fixture.hpp"
#include "test/reference/gpt.hpp"

namespace trilith::reference {

struct Gpt2Fixture {
  GptShape shape;
  Weights weights;  // every value is a float
  Batch batch;      // sequences differ in how many targets count
  Values logits;    // (sequences, length, vocabulary)
  double loss;
  Weights gradients;

  // Some steps on the same batch, clipped and decayed.
  AdamW adamw;
  std::vector<double> losses;  // of each step, before its update
  std::vector<double> norms;   // of each step, before clipping
  Weights trained;             // after the last step
};

// Holds config.json, model.safetensors and figures.json.
inline std::filesystem::path gpt2_fixture_folder() {
  return fixture_folder("gpt2_fixture");
}

inline Gpt2Fixture gpt2_fixture() {
  const std::filesystem::path folder = gpt2_fixture_folder();
  const auto config = nlohmann::json::parse(contents(folder / "config.json"));
  const auto figures = nlohmann::json::parse(contents(folder / "figures.json"));
  const auto adamw = figures.at("adamw");
  return {
      .shape = {.layers = config.at("n_layer"),
                .hidden = config.at("n_embd"),
                .heads = config.at("n_head"),
                .positions = config.at("n_positions"),
                .vocabulary = config.at("vocab_size")},
      .weights = read_safetensors(folder / "model.safetensors", "transformer."),
      .batch = {.sequences = figures.at("sequences"),
                .length = figures.at("length"),
                .tokens = figures.at("tokens"),
                .targets = figures.at("targets")},
      .logits = figures.at("logits"),
      .loss = figures.at("loss"),
      .gradients = figures.at("gradients"),
      .adamw = {.learning_rate = adamw.at("learning_rate"),
                .beta1 = adamw.at("beta1"),
                .beta2 = adamw.at("beta2"),
                .epsilon = adamw.at("epsilon"),
                .weight_decay = adamw.at("weight_decay"),
                .max_norm = adamw.at("max_norm")},
      .losses = adamw.at("losses"),
      .norms = adamw.at("norms"),
      .trained = adamw.at("weights"),
  };
}

}  // namespace trilith::reference
