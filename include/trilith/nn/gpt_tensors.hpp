// The weights of a GPT-2 as files know them.
//
// Trilith calls its parameters as Hugging Face's transformers does, without the prefix `transformer.`. With
// hidden size h:
//
//   wte.weight (vocabulary, h)            wpe.weight (positions, h)
//   h.{i}.ln_1.weight, .bias (h)          h.{i}.ln_2.weight, .bias (h)
//   h.{i}.attn.c_attn.weight (h, 3h), .bias (3h)         columns: queries, keys, values
//   h.{i}.attn.c_proj.weight (h, h), .bias (h)
//   h.{i}.mlp.c_fc.weight (h, 4h), .bias (4h)
//   h.{i}.mlp.c_proj.weight (4h, h), .bias (h)
//   ln_f.weight, .bias (h)
//
// The linear layers are what transformers calls Conv1D: (in, out).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/gpt_shape.hpp>

namespace trilith::inline v0 {

// All weights of a GPT-2, in the model's order.
inline std::vector<NamedShape> gpt2_tensors(const GptShape& shape) {
  const Index h = shape.hidden;
  std::vector<NamedShape> tensors{{"wte.weight", {shape.vocabulary, h}},
                                  {"wpe.weight", {shape.positions, h}}};
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = "h." + std::to_string(i) + ".";
    const auto add = [&](const char* name, std::vector<Index> weight) {
      tensors.push_back({layer + name + ".bias", {weight.back()}});
      tensors.insert(tensors.end() - 1, {layer + name + ".weight", std::move(weight)});
    };
    add("ln_1", {h});
    add("attn.c_attn", {h, 3 * h});
    add("attn.c_proj", {h, h});
    add("ln_2", {h});
    add("mlp.c_fc", {h, 4 * h});
    add("mlp.c_proj", {4 * h, h});
  }
  tensors.push_back({"ln_f.weight", {h}});
  tensors.push_back({"ln_f.bias", {h}});
  return tensors;
}

// What a writer needs beside the tensors for GPT2LMHeadModel and Gpt2Checkpoint to load its file.
inline std::map<std::string, std::string> gpt2_metadata(const GptShape& shape) {
  return {{"format", "pt"}, {"n_head", std::to_string(shape.heads)}};
}

}  // namespace trilith::inline v0
