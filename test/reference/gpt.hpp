// GPT-2 in float64, written to be read rather than to be fast: what the library's losses, gradients and
// logits are compared with. One rank, one microbatch, explicit scores, no library but the standard one.
//
// The model is Radford et al., "Language models are unsupervised multitask learners", 2019, as Hugging
// Face's GPT2LMHeadModel computes it: learned positions, LayerNorm before attention and MLP, GELU by its
// tanh approximation, the token embedding as output head.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/train/batch.hpp>

#include "test/reference/layers.hpp"
#include "test/reference/weights.hpp"

namespace trilith::reference {

// The extents of every tensor of the model, by Hugging Face's GPT-2 names without the `transformer.` prefix.
// They lie as they do there: the weight of a linear is (in, out).
inline std::map<std::string, std::vector<Index>> weight_extents(const GptShape& shape) {
  const Index h = shape.hidden;
  std::map<std::string, std::vector<Index>> extents{
      {"wte.weight", {shape.vocabulary, h}},
      {"wpe.weight", {shape.positions, h}},
      {"ln_f.weight", {h}},
      {"ln_f.bias", {h}},
  };
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    for (const char* norm : {"ln_1", "ln_2"}) {
      extents[prefix + norm + ".weight"] = {h};
      extents[prefix + norm + ".bias"] = {h};
    }
    const auto linear = [&](const std::string& name, Index in, Index out) {
      extents[prefix + name + ".weight"] = {in, out};
      extents[prefix + name + ".bias"] = {out};
    };
    linear("attn.c_attn", h, 3 * h);
    linear("attn.c_proj", h, h);
    linear("mlp.c_fc", h, 4 * h);
    linear("mlp.c_proj", 4 * h, h);
  }
  return extents;
}

// What the forward pass of a block leaves for its backward pass. Rows are tokens.
struct BlockActivations {
  Values input;      // (rows, hidden)
  Values normed_1;   // (rows, hidden)
  Values qkv;        // (rows, 3 · hidden)
  Values attended;   // (rows, hidden)
  Values middle;     // (rows, hidden): input plus attention
  Values normed_2;   // (rows, hidden)
  Values expanded;   // (rows, 4 · hidden)
  Values activated;  // (rows, 4 · hidden)
};

struct Activations {
  std::vector<BlockActivations> blocks;
  Values last;    // (rows, hidden): what leaves the last block
  Values normed;  // (rows, hidden)
  Values logits;  // (rows, vocabulary)
};

inline Activations forward(const GptShape& shape, const Weights& weights,
                           const std::vector<std::int32_t>& tokens, Index sequences, Index length) {
  const Index h = shape.hidden;
  const AttentionLayout layout{sequences, length, shape.heads, shape.heads, shape.head_dimension()};
  Activations result;
  Values x(sequences * length * h);
  for (Index r = 0; r < sequences * length; ++r) {
    for (Index i = 0; i < h; ++i) {
      x[r * h + i] =
          weights.at("wte.weight")[tokens[r] * h + i] + weights.at("wpe.weight")[r % length * h + i];
    }
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    const auto w = [&](const std::string& name) -> const Values& {
      return weights.at("h." + std::to_string(layer) + "." + name);
    };
    BlockActivations a;
    a.input = x;
    a.normed_1 = layer_norm(x, w("ln_1.weight"), w("ln_1.bias"));
    a.qkv = linear(a.normed_1, w("attn.c_attn.weight"), w("attn.c_attn.bias"));
    a.attended = attention(a.qkv, layout);
    add_to(x, linear(a.attended, w("attn.c_proj.weight"), w("attn.c_proj.bias")));
    a.middle = x;
    a.normed_2 = layer_norm(x, w("ln_2.weight"), w("ln_2.bias"));
    a.expanded = linear(a.normed_2, w("mlp.c_fc.weight"), w("mlp.c_fc.bias"));
    a.activated = gelu(a.expanded);
    add_to(x, linear(a.activated, w("mlp.c_proj.weight"), w("mlp.c_proj.bias")));
    result.blocks.push_back(std::move(a));
  }
  result.last = x;
  result.normed = layer_norm(x, weights.at("ln_f.weight"), weights.at("ln_f.bias"));
  result.logits = projection(result.normed, weights.at("wte.weight"), h);
  return result;
}

inline Values logits(const GptShape& shape, const Weights& weights,
                     const std::vector<std::int32_t>& tokens,  // (sequences, length)
                     Index sequences, Index length) {
  return forward(shape, weights, tokens, sequences, length).logits;
}  // (sequences, length, vocabulary)

// The mean loss over the valid tokens of the batch, and its gradients.
inline LossAndGradients loss_and_gradients(const GptShape& shape, const Weights& weights,
                                           const Batch& batch) {
  const Index h = shape.hidden;
  const AttentionLayout layout{batch.sequences, batch.length, shape.heads, shape.heads,
                               shape.head_dimension()};
  const Activations a = forward(shape, weights, batch.tokens, batch.sequences, batch.length);
  const auto [loss, dlogits] = cross_entropy(a.logits, batch.targets);

  Weights gradients = zeros_like(weights);
  Values& dwte = gradients.at("wte.weight");
  Values& dwpe = gradients.at("wpe.weight");
  Values dx = projection_backward(dlogits, a.normed, weights.at("wte.weight"), h, dwte);
  dx = layer_norm_backward(dx, a.last, weights.at("ln_f.weight"), gradients.at("ln_f.weight"),
                           gradients.at("ln_f.bias"));
  for (int layer = shape.layers - 1; layer >= 0; --layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    const auto w = [&](const char* name) -> const Values& { return weights.at(prefix + name); };
    const auto dw = [&](const char* name) -> Values& { return gradients.at(prefix + name); };
    const BlockActivations& block = a.blocks[layer];

    Values d = linear_backward(dx, block.activated, w("mlp.c_proj.weight"), dw("mlp.c_proj.weight"),
                               dw("mlp.c_proj.bias"));
    d = gelu_backward(d, block.expanded);
    d = linear_backward(d, block.normed_2, w("mlp.c_fc.weight"), dw("mlp.c_fc.weight"), dw("mlp.c_fc.bias"));
    add_to(dx, layer_norm_backward(d, block.middle, w("ln_2.weight"), dw("ln_2.weight"), dw("ln_2.bias")));

    d = linear_backward(dx, block.attended, w("attn.c_proj.weight"), dw("attn.c_proj.weight"),
                        dw("attn.c_proj.bias"));
    d = attention_backward(d, block.qkv, layout);
    d = linear_backward(d, block.normed_1, w("attn.c_attn.weight"), dw("attn.c_attn.weight"),
                        dw("attn.c_attn.bias"));
    add_to(dx, layer_norm_backward(d, block.input, w("ln_1.weight"), dw("ln_1.weight"), dw("ln_1.bias")));
  }
  for (Index r = 0; r < batch.sequences * batch.length; ++r) {
    for (Index i = 0; i < h; ++i) {
      dwte[batch.tokens[r] * h + i] += dx[r * h + i];
      dwpe[r % batch.length * h + i] += dx[r * h + i];
    }
  }
  return {loss, std::move(gradients)};
}

}  // namespace trilith::reference
