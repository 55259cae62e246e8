// A GPT-2 (Radford et al., 2019), or the part of one that a pipeline stage holds: learned positions,
// pre-LayerNorm blocks, and an output head tied to the embedding.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/decoder.hpp>
#include <trilith/nn/gpt_embedding.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/gpt_tensors.hpp>
#include <trilith/nn/layer_norm.hpp>
#include <trilith/nn/mlp.hpp>
#include <trilith/nn/model_site.hpp>
#include <trilith/nn/transformer_block.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/parallel/stage_range.hpp>

namespace trilith::inline v0 {

template <class L>
using GptBlock = TransformerBlock<L, LayerNorm<L>, GeluMlp<L>>;

template <class L>
class Gpt : public Decoder<L, GptEmbedding<L>, GptBlock<L>> {
  using Base = Decoder<L, GptEmbedding<L>, GptBlock<L>>;

 public:
  using Shape = GptShape;

  // Does not compile where the shape breaks a rule under the layout. The base comes first: without heads none
  // has a dimension.
  template <GptShape S, ParallelShape P>
  struct CheckedShape : CheckedGptShape<S, P> {
    typename Base::template CheckedHeads<S.head_dimension()> heads;
  };

  Gpt(const GptShape& shape, const StageRange& stage, const ModelSite<L>& site)
      : Base({.hidden = shape.hidden,
              .vocabulary = shape.vocabulary,
              .heads = shape.heads,
              .kv_heads = shape.heads,
              .head_dimension = shape.head_dimension()},
             stage, site) {
    this->add_table(site.parameters, "wte.weight", /*tied=*/true);
    if (stage.first) {
      this->embedding_.emplace(*this->table_, shape, Base::deviation, this->attention_.rows(), site);
    }
    for (int i = 0; i < stage.layers; ++i) {
      add_block(shape, "h." + std::to_string(stage.first_layer + i), site);
    }
    if (stage.last) this->norm_.emplace(site.parameters, "ln_f", shape.hidden);
    this->add_head(site);
  }

  // Floating-point operations a token of one forward pass, halved where a causal mask hides half the work.
  static ModelCost cost(const GptShape& shape, Index sequence) {
    const double h = shape.hidden;
    const double layer = 24 * h * h + 2 * h * static_cast<double>(sequence);
    return {.layers = std::vector<double>(shape.layers, layer), .after = 2 * h * shape.vocabulary};
  }

  // All weights of the whole model, in its order, and what a file says of them besides.
  static std::vector<NamedShape> tensors(const GptShape& shape) { return gpt2_tensors(shape); }
  static std::map<std::string, std::string> metadata(const GptShape& shape) { return gpt2_metadata(shape); }

 private:
  void add_block(const GptShape& shape, const std::string& name, const ModelSite<L>& site) {
    auto& parameters = site.parameters;
    auto& group = site.tensor_group;
    const Index h = shape.hidden;
    const Index wide = shape.feed_forward();
    // GPT-2 makes the weights that add to the residual stream smaller by the square root of their number.
    const float residual = Base::deviation / std::sqrt(2.0f * static_cast<float>(shape.layers));
    this->blocks_.emplace_back(
        h, typename GptBlock<L>::Layers{
               .norm_1 = {parameters, name + ".ln_1", h},
               .attention = {{.qkv = {parameters, name + ".attn.c_attn",
                                      LinearShape{.in = h, .out = 3 * h, .parts = 3}, group},
                              .projection = {parameters, name + ".attn.c_proj",
                                             LinearShape{.in = h, .out = h, .deviation = residual}, group}},
                             this->attention_},
               .norm_2 = {parameters, name + ".ln_2", h},
               .mlp = GeluMlp<L>(
                   {.up = {parameters, name + ".mlp.c_fc", LinearShape{.in = h, .out = wide}, group},
                    .down = {parameters, name + ".mlp.c_proj",
                             LinearShape{.in = wide, .out = h, .deviation = residual}, group}})});
  }
};

}  // namespace trilith::inline v0
