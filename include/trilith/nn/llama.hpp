// A Llama (Touvron et al., arXiv:2302.13971; with grouped queries, arXiv:2307.09288), or the part of one that
// a pipeline stage holds, as Hugging Face's LlamaForCausalLM computes it: rotary embedding, blocks of RmsNorm
// and SwiGLU, no biases, an output head of its own or tied to the embedding.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/decoder.hpp>
#include <trilith/nn/llama_shape.hpp>
#include <trilith/nn/llama_tensors.hpp>
#include <trilith/nn/mlp.hpp>
#include <trilith/nn/model_site.hpp>
#include <trilith/nn/rms_norm.hpp>
#include <trilith/nn/rotary.hpp>
#include <trilith/nn/transformer_block.hpp>
#include <trilith/nn/vocabulary.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/parallel/stage_range.hpp>

namespace trilith::inline v0 {

template <class L>
using LlamaBlock = TransformerBlock<L, RmsNorm<L>, SwigluMlp<L>>;

template <class L>
class Llama : public Decoder<L, VocabularyParallelEmbedding<L>, LlamaBlock<L>> {
  using Base = Decoder<L, VocabularyParallelEmbedding<L>, LlamaBlock<L>>;

 public:
  using Shape = LlamaShape;

  // Does not compile where the shape breaks a rule under the layout.
  template <LlamaShape S, ParallelShape P>
  struct CheckedShape : CheckedLlamaShape<S, P>, Base::template CheckedHeads<S.head_dimension> {};

  Llama(const LlamaShape& shape, const StageRange& stage, const ModelSite<L>& site)
      : Base({.hidden = shape.hidden,
              .vocabulary = shape.vocabulary,
              .heads = shape.heads,
              .kv_heads = shape.kv_heads * shape.kv_copies(L::tensor_ranks),
              .head_dimension = shape.head_dimension},
             stage, site),
        rotary_({.dimension = shape.head_dimension, .theta = shape.rope_theta}, this->attention_.rows(),
                site.sequence, site.memory, site.stream) {
    this->add_table(site.parameters, "model.embed_tokens.weight", shape.tied);
    if (stage.first) {
      this->embedding_.emplace(*this->table_, shape.vocabulary, shape.hidden, site.tensor_group);
    }
    for (int i = 0; i < stage.layers; ++i) {
      add_block(shape, "model.layers." + std::to_string(stage.first_layer + i), site);
    }
    if (stage.last) {
      this->norm_.emplace(site.parameters, "model.norm", shape.hidden, shape.norm_epsilon);
    }
    this->add_head(site, "lm_head.weight");
  }

  // Floating-point operations a token of one forward pass, halved where a causal mask hides half the work.
  static ModelCost cost(const LlamaShape& shape, Index sequence) {
    const double h = shape.hidden;
    const auto queries = static_cast<double>(shape.query_width());
    const double weights =
        2 * h * (queries + static_cast<double>(shape.kv_width())) + 3 * h * shape.feed_forward;
    const double layer = 2 * weights + 2 * queries * static_cast<double>(sequence);
    return {.layers = std::vector<double>(shape.layers, layer), .after = 2 * h * shape.vocabulary};
  }

  // All weights of the whole model, in its order, and what a file says of them besides.
  static std::vector<NamedShape> tensors(const LlamaShape& shape) { return llama_tensors(shape); }
  static std::map<std::string, std::string> metadata(const LlamaShape& shape) {
    return llama_metadata(shape);
  }

 private:
  void add_block(const LlamaShape& shape, const std::string& name, const ModelSite<L>& site) {
    auto& parameters = site.parameters;
    auto& group = site.tensor_group;
    const Index h = shape.hidden;
    const Index wide = shape.feed_forward;
    const int copies = shape.kv_copies(L::tensor_ranks);
    const std::string attention = name + ".self_attn.";
    const std::string mlp = name + ".mlp.";
    const auto to_residual = [&](Index in) {
      // Smaller by the square root of their number, as in GPT-2; a checkpoint says otherwise anyway.
      const float smaller = Base::deviation / std::sqrt(2.0f * static_cast<float>(shape.layers));
      return LinearShape{
          .in = in, .out = h, .deviation = smaller, .layout = WeightLayout::out_in, .has_bias = false};
    };
    this->blocks_.emplace_back(
        h, typename LlamaBlock<L>::Layers{
               .norm_1 = {parameters, name + ".input_layernorm", h, shape.norm_epsilon},
               .attention = {{.qkv = {parameters,
                                      {{attention + "q_proj", shape.query_width()},
                                       {attention + "k_proj", shape.kv_width(), copies},
                                       {attention + "v_proj", shape.kv_width(), copies}},
                                      h,
                                      group},
                              .projection = {parameters, attention + "o_proj",
                                             to_residual(shape.query_width()), group}},
                             this->attention_,
                             rotary_.table()},
               .norm_2 = {parameters, name + ".post_attention_layernorm", h, shape.norm_epsilon},
               .mlp = SwigluMlp<L>(
                   {.gate_up = {parameters, {{mlp + "gate_proj", wide}, {mlp + "up_proj", wide}}, h, group},
                    .down = {parameters, mlp + "down_proj", to_residual(wide), group}})});
  }

  Rotary<typename L::device_type> rotary_;
};

}  // namespace trilith::inline v0
