// The weights of a Llama as files know them, with the names of Hugging Face's LlamaForCausalLM. With hidden
// size h, feed-forward size f, and queries and keys of widths q and k over all their heads:
//
//   model.embed_tokens.weight (vocabulary, h)
//   model.layers.{i}.self_attn.q_proj.weight (q, h)
//   model.layers.{i}.self_attn.k_proj.weight, v_proj.weight (k, h)
//   model.layers.{i}.self_attn.o_proj.weight (h, q)
//   model.layers.{i}.mlp.gate_proj.weight, up_proj.weight (f, h)
//   model.layers.{i}.mlp.down_proj.weight (h, f)
//   model.layers.{i}.input_layernorm.weight, post_attention_layernorm.weight (h)
//   model.norm.weight (h)
//   lm_head.weight (vocabulary, h)                          unless it is tied to the embedding
//
// The linear layers are PyTorch's nn.Linear: (out, in).
#pragma once

#include <charconv>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/llama_shape.hpp>

namespace trilith::inline v0 {

// All weights of a Llama, in Hugging Face's order.
inline std::vector<NamedShape> llama_tensors(const LlamaShape& shape) {
  const Index h = shape.hidden;
  const Index f = shape.feed_forward;
  const Index q = shape.query_width();
  const Index k = shape.kv_width();
  std::vector<NamedShape> tensors{{"model.embed_tokens.weight", {shape.vocabulary, h}}};
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const auto add = [&](const char* name, std::vector<Index> extents) {
      tensors.push_back({layer + name + ".weight", std::move(extents)});
    };
    add("self_attn.q_proj", {q, h});
    add("self_attn.k_proj", {k, h});
    add("self_attn.v_proj", {k, h});
    add("self_attn.o_proj", {h, q});
    add("mlp.gate_proj", {f, h});
    add("mlp.up_proj", {f, h});
    add("mlp.down_proj", {h, f});
    add("input_layernorm", {h});
    add("post_attention_layernorm", {h});
  }
  tensors.push_back({"model.norm.weight", {h}});
  if (!shape.tied) tensors.push_back({"lm_head.weight", {shape.vocabulary, h}});
  return tensors;
}

// What the tensors do not say of a model, under the names of Hugging Face's config.json.
inline std::map<std::string, std::string> llama_metadata(const LlamaShape& shape) {
  // The shortest text that reads back as the same float.
  const auto text = [](float value) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  };
  return {{"format", "pt"},
          {"num_attention_heads", std::to_string(shape.heads)},
          {"max_position_embeddings", std::to_string(shape.positions)},
          {"rope_theta", text(shape.rope_theta)},
          {"rms_norm_eps", text(shape.norm_epsilon)}};
}

}  // namespace trilith::inline v0
