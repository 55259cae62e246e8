// A GPT-2 (Radford et al., 2019), or the part of one that a pipeline stage holds: learned positions,
// pre-LayerNorm blocks, and an output head tied to the embedding.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/gpt_tensors.hpp>
#include <trilith/nn/layer_norm.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/nn/model_site.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/nn/self_attention.hpp>
#include <trilith/nn/transformer_block.hpp>
#include <trilith/nn/vocabulary.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/parallel/stage_range.hpp>

namespace trilith::inline v0 {

template <class L>
class Gpt {
 public:
  using Shape = GptShape;
  using layer_config = L;
  using stream = typename L::stream;
  using Block = TransformerBlock<L>;
  using Context = typename SelfAttention<L>::Context;

  // Does not compile where the shape breaks a rule under the layout.
  template <GptShape S, ParallelShape P>
  using CheckedShape = CheckedGptShape<S, P>;

  struct Activations {
    Matrix<float> input;  // (rows, hidden): embedded tokens, or what the stage before sent; a boundary()
    std::vector<typename Block::Activations> blocks;
    typename LayerNorm<L>::Statistics statistics;
    Matrix<float> normed;  // (rows, hidden)
    typename VocabularyParallelHead<L>::Activations head;
  };

  struct Gradients {
    Matrix<float> output;  // (rows, hidden): of the last block's output, from the head or the next stage; a
                           // boundary()
    std::vector<typename Block::Gradients> blocks;
  };

  struct Scratch {
    typename Block::Scratch block;
    Matrix<float> d_normed;  // (rows, hidden)
  };

  Gpt(const GptShape& shape, const StageRange& stage, const ModelSite<L>& site);
  Gpt(const Gpt&) = delete;  // its blocks refer to it
  Gpt& operator=(const Gpt&) = delete;

  // Floating-point operations a token of one forward pass, halved where a causal mask hides half the work.
  static ModelCost cost(const GptShape& shape, Index sequence) {
    const double h = shape.hidden;
    const double layer = 24 * h * h + 2 * h * static_cast<double>(sequence);
    return {.layers = std::vector<double>(shape.layers, layer), .after = 2 * h * shape.vocabulary};
  }

  // All weights of the whole model, in its order, and what a file says of them besides.
  static std::vector<NamedShape> tensors(const GptShape& shape) { return gpt2_tensors(shape); }
  static std::map<std::string, std::string> metadata(const GptShape& shape) { return gpt2_metadata(shape); }

  // What passes from stage to stage, in either direction. Those of a microbatch come and go at other times
  // than its activations and gradients, so whoever plans the memory puts them in.
  Matrix<float> boundary(Arena& arena, const TokenShape& tokens) const {
    return arena.take<float>(tokens.rows(), shape_.hidden);
  }

  Activations activations(Arena& arena, const TokenShape& tokens) const;

  // Where input and weight gradients stand apart in time, each block needs gradients of its own; otherwise
  // all blocks share them, but for the two that meet.
  Gradients gradients(Arena& arena, const TokenShape& tokens, bool apart) const;

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.block = blocks_.front().scratch(arena, tokens),
            .d_normed = arena.take<float>(tokens.rows(), shape_.hidden)};
  }

  // Once the parameters have memory.
  void allocate(typename L::memory& memory);

  // Fills a.input where this is the first stage, then everything else in `a`.
  void forward(const stream& s, const Microbatch& microbatch, const Activations& a,
               const Scratch& scratch) const;

  Matrix<float> output(const Activations& a) const { return a.blocks.back().output; }

  // On the last stage, after forward: total(0) = the sum of the losses of the microbatch's valid tokens.
  void loss(const stream& s, const Microbatch& microbatch, const Activations& a, Vector<double> total) const {
    head_->loss(s, microbatch.targets, a.head, total);
  }

  // From g.output, which the last stage fills itself, to input_gradient(g). `loss_scale`: 1 / valid tokens
  // of the global batch.
  void backward_input(const stream& s, const Microbatch& microbatch, const Activations& a, const Gradients& g,
                      const Scratch& scratch, float loss_scale, Accumulate accumulate) const {
    backward_head(s, microbatch, a, g, scratch, loss_scale, accumulate);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      backward_block_input(s, microbatch, i, a, g, scratch, accumulate);
    }
  }

  // After backward_input. Calls final(first, last) with ranges of the gradient buffer as they are complete
  // for this microbatch.
  template <class Final>
  void backward_weight(const stream& s, const Microbatch& microbatch, const Activations& a,
                       const Gradients& g, Accumulate accumulate, Final&& final) const {
    backward_head_weight(s, a, accumulate);
    for (std::size_t i = blocks_.size(); i-- > 0;) backward_block_weight(s, i, a, g, accumulate, final);
    backward_embedding(s, microbatch, g, accumulate, final);
  }

  // Both, block by block: the same operations on the same numbers, with shared gradient memory.
  template <class Final>
  void backward(const stream& s, const Microbatch& microbatch, const Activations& a, const Gradients& g,
                const Scratch& scratch, float loss_scale, Accumulate accumulate, Final&& final) const {
    backward_head(s, microbatch, a, g, scratch, loss_scale, accumulate);
    backward_head_weight(s, a, accumulate);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      backward_block_input(s, microbatch, i, a, g, scratch, accumulate);
      backward_block_weight(s, i, a, g, accumulate, final);
    }
    backward_embedding(s, microbatch, g, accumulate, final);
  }

  Matrix<float> input_gradient(const Gradients& g) const { return g.blocks.front().input; }

  // The tied table, where this stage holds one: the first and the last stage do.
  const Parameter* tied() const { return table_; }

  // Where one rank holds the first stage and the last, adds the head's gradient of the table to the
  // embedding's. Otherwise the two ranks' gradients are to be summed by the caller.
  void combine_tied(const stream& s) const {
    if (stage_.last && !table_->spec.is_copy) add(s, d_head_, table_->gradient);
  }

  // The logits of row `row` that this rank holds, those of tokens first, first + 1, …; after forward.
  struct Logits {
    Index first;
    Vector<const float> values;
  };
  Logits logits(const Activations& a, Index row) const {
    const VocabularyPart& part = head_->part();
    return {.first = part.first, .values = a.head.logits[row].slice(0, 0, part.valid)};
  }

 private:
  void backward_head(const stream& s, const Microbatch& microbatch, const Activations& a, const Gradients& g,
                     const Scratch& scratch, float loss_scale, Accumulate accumulate) const {
    if (!stage_.last) return;
    head_->backward_input(s, microbatch.targets, a.head, loss_scale, scratch.d_normed);
    norm_->backward(s, scratch.d_normed, output(a), a.statistics, g.output, accumulate);
  }

  void backward_head_weight(const stream& s, const Activations& a, Accumulate accumulate) const {
    if (!stage_.last) return;
    const Matrix<float> d_table{d_head_.data(), {head_->part().share, shape_.hidden}};
    head_->backward_weight(s, a.normed, a.head, d_table, accumulate);
  }

  void backward_block_input(const stream& s, const Microbatch& microbatch, std::size_t i,
                            const Activations& a, const Gradients& g, const Scratch& scratch,
                            Accumulate accumulate) const {
    blocks_[i].backward_input(s, microbatch.shape, block_input(a, i), a.blocks[i], d_block_output(g, i),
                              g.blocks[i], scratch.block, accumulate);
  }

  template <class Final>
  void backward_block_weight(const stream& s, std::size_t i, const Activations& a, const Gradients& g,
                             Accumulate accumulate, Final&& final) const {
    blocks_[i].backward_weight(s, a.blocks[i], d_block_output(g, i), g.blocks[i], accumulate);
    // The last block's range takes the final norm along.
    const Index last = i + 1 < blocks_.size() ? blocks_[i + 1].first_offset() : last_offset_;
    final(blocks_[i].first_offset(), last);
  }

  template <class Final>
  void backward_embedding(const stream& s, const Microbatch& microbatch, const Gradients& g,
                          Accumulate accumulate, Final&& final) const {
    if (!stage_.first) return;
    const Matrix<const float> d_input = input_gradient(g);
    embedding_->backward_weight(s, microbatch.tokens, d_input, accumulate);
    positions_backward(s, d_input, position_of_row(),
                       positions_->gradient_matrix(shape_.positions, shape_.hidden), accumulate);
    final(positions_->offset, blocks_.front().first_offset());
  }

  Matrix<const float> block_input(const Activations& a, std::size_t i) const {
    return i == 0 ? a.input : a.blocks[i - 1].output;
  }
  Matrix<const float> d_block_output(const Gradients& g, std::size_t i) const {
    return i + 1 < blocks_.size() ? g.blocks[i + 1].input : g.output;
  }

  // Of each row of a sequence on this rank; negative where it is padding.
  Vector<const std::int32_t> position_of_row() const {
    return {reinterpret_cast<const std::int32_t*>(position_memory_.data()), {attention_.rows().size()}};
  }

  GptShape shape_;
  StageRange stage_;
  Context attention_;
  const Parameter* table_ = nullptr;
  const Parameter* positions_ = nullptr;
  std::optional<VocabularyParallelEmbedding<L>> embedding_;
  std::vector<Block> blocks_;
  std::optional<LayerNorm<L>> norm_;
  std::optional<VocabularyParallelHead<L>> head_;
  Index last_offset_ = 0;
  typename L::device_type::allocation position_memory_;
  typename L::device_type::allocation d_head_memory_;
  Vector<float> d_head_;  // the head's gradient of the table
};

template <class L>
Gpt<L>::Gpt(const GptShape& shape, const StageRange& stage, const ModelSite<L>& site)
    : shape_(shape),
      stage_(stage),
      attention_({.sequence = site.sequence,
                  .heads = shape.heads / L::tensor_ranks,
                  .kv_heads = shape.heads / L::tensor_ranks,
                  .dimension = shape.head_dimension(),
                  .padding = site.padding},
                 mask::causal(), site.context_group, site.memory, site.stream) {
  constexpr float deviation = 0.02f;
  Parameters<typename L::device_type>& parameters = site.parameters;
  typename L::communicator& tensor_group = site.tensor_group;
  if (stage.first || stage.last) {
    ParameterSpec table = embedding_table<L>("wte.weight", shape.vocabulary, shape.hidden, deviation);
    table.is_copy = !stage.first;
    table_ = parameters.find(table.name);  // where the rank holds the first stage and the last
    if (table_ == nullptr) table_ = &parameters.add(table);
  }
  if (stage.first) {
    positions_ = &parameters.add({.name = "wpe.weight",
                                  .shape = {shape.positions, shape.hidden},
                                  .partition = {.extent = shape.positions, .inner = shape.hidden},
                                  .initial = Initial::normal,
                                  .deviation = deviation,
                                  .decays = true});
    embedding_.emplace(*table_, shape.vocabulary, shape.hidden, tensor_group);
    const std::vector<std::int32_t> positions = positions_of(attention_.rows(), site.sequence);
    position_memory_ = site.memory.allocate(positions.size() * sizeof(std::int32_t));
    upload(site.stream, positions.data(),
           Vector<std::int32_t>(reinterpret_cast<std::int32_t*>(position_memory_.data()),
                                {static_cast<Index>(positions.size())}));
  }
  // GPT-2 makes the weights that add to the residual stream smaller by the square root of their number.
  const BlockShape block{
      .hidden = shape.hidden,
      .heads = shape.heads,
      .feed_forward = shape.feed_forward(),
      .residual_deviation = deviation / std::sqrt(2.0f * static_cast<float>(shape.layers))};
  for (int i = 0; i < stage.layers; ++i) {
    blocks_.emplace_back(parameters, "h." + std::to_string(stage.first_layer + i), block, tensor_group,
                         attention_);
  }
  if (stage.last) {
    norm_.emplace(parameters, "ln_f", shape.hidden);
    head_.emplace(*table_, shape.vocabulary, shape.hidden, tensor_group);
  }
  last_offset_ = parameters.size();
}

template <class L>
void Gpt<L>::allocate(typename L::memory& memory) {
  if (!stage_.last) return;
  if (table_->spec.is_copy) {
    d_head_ = table_->gradient;  // the copy's own; the first stage's rank has the embedding's
    return;
  }
  d_head_memory_ = memory.allocate(static_cast<std::size_t>(table_->gradient.size()) * sizeof(float));
  d_head_ = {reinterpret_cast<float*>(d_head_memory_.data()), table_->gradient.extents()};
}

template <class L>
typename Gpt<L>::Activations Gpt<L>::activations(Arena& arena, const TokenShape& tokens) const {
  Activations a;
  for (const Block& block : blocks_) a.blocks.push_back(block.activations(arena, tokens));
  if (stage_.last) {
    a.statistics = LayerNorm<L>::statistics(arena, tokens.rows());
    a.normed = arena.take<float>(tokens.rows(), shape_.hidden);
    a.head = head_->activations(arena, tokens.rows());
  }
  return a;
}

template <class L>
typename Gpt<L>::Gradients Gpt<L>::gradients(Arena& arena, const TokenShape& tokens, bool apart) const {
  Gradients g;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (apart || i == 0) {
      g.blocks.push_back(blocks_[i].gradients(arena, tokens));
      continue;
    }
    // A block reads the input gradient of the one after it while it writes its own.
    g.blocks.push_back(g.blocks[0]);
    if (i == 1) g.blocks[1].input = arena.take<float>(tokens.rows(), shape_.hidden);
    if (i > 1) g.blocks[i].input = g.blocks[i - 2].input;
  }
  return g;
}

template <class L>
void Gpt<L>::forward(const stream& s, const Microbatch& microbatch, const Activations& a,
                     const Scratch& scratch) const {
  if (stage_.first) {
    embedding_->forward(s, microbatch.tokens, a.input);
    add_positions(s, positions_->matrix(shape_.positions, shape_.hidden), position_of_row(), a.input);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].forward(s, microbatch.shape, block_input(a, i), a.blocks[i], scratch.block);
  }
  if (stage_.last) {
    norm_->forward(s, output(a), a.normed, a.statistics);
    head_->forward(s, a.normed, a.head);
  }
}

}  // namespace trilith::inline v0
