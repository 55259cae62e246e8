// A small random GPT-2 as Hugging Face's transformers saved it, with what PyTorch computed from it in
// float64. make_gpt2_fixture.py made it and says how.
//
// The safetensors file is read here by a few lines of its own, so that the library's reader has something
// to be compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "test/reference/adamw.hpp"
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

// Holds config.json, model.safetensors and figures.json: among the runfiles of a Bazel test, or below the
// current folder.
inline std::filesystem::path gpt2_fixture_folder() {
  const std::filesystem::path folder = "test/reference/gpt2_fixture";
  const char* runfiles = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (runfiles == nullptr || workspace == nullptr) return folder;
  return std::filesystem::path(runfiles) / workspace / folder;
}

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// Eight bytes hold the length of a JSON header, little-endian as this machine; it gives each tensor's place
// in the bytes that follow.
inline Weights read_safetensors(const std::filesystem::path& path) {
  const std::string bytes = contents(path);
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const std::size_t data = sizeof header_size + header_size;
  Weights weights;
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));
  for (const auto& [name, tensor] : header.items()) {
    const std::string prefix = "transformer.";
    if (!name.starts_with(prefix)) continue;
    const auto begin = tensor["data_offsets"][0].get<std::size_t>();
    const auto end = tensor["data_offsets"][1].get<std::size_t>();
    std::vector<float> values((end - begin) / sizeof(float));
    std::memcpy(values.data(), &bytes.at(data + begin), end - begin);
    weights[name.substr(prefix.size())] = Values(values.begin(), values.end());
  }
  return weights;
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
      .weights = read_safetensors(folder / "model.safetensors"),
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
