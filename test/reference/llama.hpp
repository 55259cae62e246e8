// Llama in float64, written to be read rather than to be fast: what the library's losses, gradients and
// logits are compared with. One rank, one microbatch, explicit scores, no library but the standard one.
//
// The model is Touvron et al., "LLaMA: open and efficient foundation language models", 2023, as Hugging
// Face's LlamaForCausalLM computes it: RMSNorm before attention and MLP, rotary positions, queries that share
// keys and values in groups, SwiGLU, no biases, an output head of its own or the token embedding.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/train/batch.hpp>

#include "test/reference/layers.hpp"
#include "test/reference/weights.hpp"

namespace trilith::reference {

struct LlamaConfig {
  int layers;
  int hidden;
  int heads;
  int kv_heads;
  int dimension;  // of a head; heads · dimension need not be hidden
  int feed_forward;
  int vocabulary;
  double theta = 10000;
  double epsilon = 1e-5;
  bool tied = false;
};

// The extents of every tensor of the model, by the names that Hugging Face gives them. They lie as they do
// there: the weight of a linear is (out, in).
inline std::map<std::string, std::vector<Index>> weight_extents(const LlamaConfig& config) {
  const Index h = config.hidden;
  const Index queries = Index{config.heads} * config.dimension;
  const Index keys = Index{config.kv_heads} * config.dimension;
  std::map<std::string, std::vector<Index>> extents{
      {"model.embed_tokens.weight", {config.vocabulary, h}},
      {"model.norm.weight", {h}},
  };
  if (!config.tied) extents["lm_head.weight"] = {config.vocabulary, h};
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    extents[prefix + "input_layernorm.weight"] = {h};
    extents[prefix + "self_attn.q_proj.weight"] = {queries, h};
    extents[prefix + "self_attn.k_proj.weight"] = {keys, h};
    extents[prefix + "self_attn.v_proj.weight"] = {keys, h};
    extents[prefix + "self_attn.o_proj.weight"] = {h, queries};
    extents[prefix + "post_attention_layernorm.weight"] = {h};
    extents[prefix + "mlp.gate_proj.weight"] = {config.feed_forward, h};
    extents[prefix + "mlp.up_proj.weight"] = {config.feed_forward, h};
    extents[prefix + "mlp.down_proj.weight"] = {h, config.feed_forward};
  }
  return extents;
}

// The rows of matrices side by side.
inline Values beside(std::initializer_list<const Values*> parts, Index rows) {
  Values all;
  for (Index r = 0; r < rows; ++r) {
    for (const Values* part : parts) {
      const Index width = std::ssize(*part) / rows;
      all.insert(all.end(), part->begin() + r * width, part->begin() + (r + 1) * width);
    }
  }
  return all;
}

// `width` columns of a matrix, from `first` on.
inline Values columns(const Values& all, Index rows, Index first, Index width) {
  const Index stride = std::ssize(all) / rows;
  Values part;
  for (Index r = 0; r < rows; ++r) {
    const auto begin = all.begin() + r * stride + first;
    part.insert(part.end(), begin, begin + width);
  }
  return part;
}

// What the forward pass of a block leaves for its backward pass. Rows are tokens.
struct LlamaBlockActivations {
  Values input;      // (rows, hidden)
  Values normed_1;   // (rows, hidden)
  Values qkv;        // (rows, (heads + 2 · kv_heads) · dimension): queries and keys rotated
  Values attended;   // (rows, heads · dimension)
  Values middle;     // (rows, hidden): input plus attention
  Values normed_2;   // (rows, hidden)
  Values gate;       // (rows, feed_forward)
  Values up;         // (rows, feed_forward)
  Values activated;  // (rows, feed_forward)
};

struct LlamaActivations {
  std::vector<LlamaBlockActivations> blocks;
  Values last;    // (rows, hidden): what leaves the last block
  Values normed;  // (rows, hidden)
  Values logits;  // (rows, vocabulary)
};

inline const char* head_of(const LlamaConfig& config) {
  return config.tied ? "model.embed_tokens.weight" : "lm_head.weight";
}

inline LlamaActivations forward(const LlamaConfig& config, const Weights& weights,
                                const std::vector<std::int32_t>& tokens, Index sequences, Index length) {
  const Index h = config.hidden;
  const Index rows = sequences * length;
  const AttentionLayout layout{sequences, length, config.heads, config.kv_heads, config.dimension};
  LlamaActivations result;
  Values x(rows * h);
  for (Index r = 0; r < rows; ++r) {
    for (Index i = 0; i < h; ++i) x[r * h + i] = weights.at("model.embed_tokens.weight")[tokens[r] * h + i];
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    const auto w = [&](const std::string& name) -> const Values& {
      return weights.at("model.layers." + std::to_string(layer) + "." + name + ".weight");
    };
    LlamaBlockActivations a;
    a.input = x;
    a.normed_1 = rms_norm(x, w("input_layernorm"), config.epsilon);
    const Values q = projection(a.normed_1, w("self_attn.q_proj"), h);
    const Values k = projection(a.normed_1, w("self_attn.k_proj"), h);
    const Values v = projection(a.normed_1, w("self_attn.v_proj"), h);
    a.qkv = rotary(beside({&q, &k, &v}, rows), layout, config.theta);
    a.attended = attention(a.qkv, layout);
    add_to(x, projection(a.attended, w("self_attn.o_proj"), Index{config.heads} * config.dimension));
    a.middle = x;
    a.normed_2 = rms_norm(x, w("post_attention_layernorm"), config.epsilon);
    a.gate = projection(a.normed_2, w("mlp.gate_proj"), h);
    a.up = projection(a.normed_2, w("mlp.up_proj"), h);
    a.activated = swiglu(a.gate, a.up);
    add_to(x, projection(a.activated, w("mlp.down_proj"), config.feed_forward));
    result.blocks.push_back(std::move(a));
  }
  result.last = x;
  result.normed = rms_norm(x, weights.at("model.norm.weight"), config.epsilon);
  result.logits = projection(result.normed, weights.at(head_of(config)), h);
  return result;
}

inline Values logits(const LlamaConfig& config, const Weights& weights,
                     const std::vector<std::int32_t>& tokens,  // (sequences, length)
                     Index sequences, Index length) {
  return forward(config, weights, tokens, sequences, length).logits;
}  // (sequences, length, vocabulary)

// The mean loss over the valid tokens of the batch, and its gradients.
inline LossAndGradients loss_and_gradients(const LlamaConfig& config, const Weights& weights,
                                           const Batch& batch) {
  const Index h = config.hidden;
  const Index rows = batch.sequences * batch.length;
  const Index queries = Index{config.heads} * config.dimension;
  const Index keys = Index{config.kv_heads} * config.dimension;
  const AttentionLayout layout{batch.sequences, batch.length, config.heads, config.kv_heads,
                               config.dimension};
  const LlamaActivations a = forward(config, weights, batch.tokens, batch.sequences, batch.length);
  const auto [loss, dlogits] = cross_entropy(a.logits, batch.targets);

  Weights gradients = zeros_like(weights);
  const char* const head = head_of(config);
  Values dx = projection_backward(dlogits, a.normed, weights.at(head), h, gradients.at(head));
  dx = rms_norm_backward(dx, a.last, weights.at("model.norm.weight"), config.epsilon,
                         gradients.at("model.norm.weight"));
  for (int layer = config.layers - 1; layer >= 0; --layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto w = [&](const std::string& name) -> const Values& {
      return weights.at(prefix + name + ".weight");
    };
    const auto dw = [&](const std::string& name) -> Values& {
      return gradients.at(prefix + name + ".weight");
    };
    const LlamaBlockActivations& block = a.blocks[layer];
    const auto back = [&](const Values& dy, const Values& x, const std::string& name, Index in) {
      return projection_backward(dy, x, w(name), in, dw(name));
    };

    Values d = back(dx, block.activated, "mlp.down_proj", config.feed_forward);
    const auto [dgate, dup] = swiglu_backward(d, block.gate, block.up);
    d = back(dgate, block.normed_2, "mlp.gate_proj", h);
    add_to(d, back(dup, block.normed_2, "mlp.up_proj", h));
    add_to(dx, rms_norm_backward(d, block.middle, w("post_attention_layernorm"), config.epsilon,
                                 dw("post_attention_layernorm")));

    d = back(dx, block.attended, "self_attn.o_proj", queries);
    const Values dqkv = rotary_backward(attention_backward(d, block.qkv, layout), layout, config.theta);
    d = back(columns(dqkv, rows, 0, queries), block.normed_1, "self_attn.q_proj", h);
    add_to(d, back(columns(dqkv, rows, queries, keys), block.normed_1, "self_attn.k_proj", h));
    add_to(d, back(columns(dqkv, rows, queries + keys, keys), block.normed_1, "self_attn.v_proj", h));
    add_to(dx,
           rms_norm_backward(d, block.input, w("input_layernorm"), config.epsilon, dw("input_layernorm")));
  }
  Values& dembedding = gradients.at("model.embed_tokens.weight");
  for (Index r = 0; r < rows; ++r) {
    for (Index i = 0; i < h; ++i) dembedding[batch.tokens[r] * h + i] += dx[r * h + i];
  }
  return {loss, std::move(gradients)};
}

}  // namespace trilith::reference
