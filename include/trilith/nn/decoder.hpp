// What decoder-only transformers have in common: an embedding, blocks, a final norm and an output head, tied
// to the embedding or not; or the part of them that a pipeline stage holds.
//
// A model derives from Decoder and, in its constructor, builds the parts that its stage holds, in the order
// in which their parameters shall lie: add_table(), embedding_, blocks_, add_head(). The passes through them
// are here. An Embedding has forward(s, tokens, y) and backward_weight(s, tokens, dy, accumulate); Block is a
// TransformerBlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/nn/model_site.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/nn/self_attention.hpp>
#include <trilith/nn/vocabulary.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/parallel/stage_range.hpp>

namespace trilith::inline v0 {

// Of the whole model.
struct DecoderShape {
  Index hidden;
  Index vocabulary;
  Index heads;
  Index kv_heads;  // with copies, where several tensor ranks hold the same
  Index head_dimension;
};

template <class L, class Embedding, class Block>
class Decoder {
 public:
  using layer_config = L;
  using stream = typename L::stream;
  using element = typename L::element;
  using Norm = typename Block::Norm;
  using Context = typename SelfAttention<L>::Context;

  struct Activations {
    Matrix<element> input;  // (rows, hidden): embedded tokens, or what the stage before sent; a boundary()
    std::vector<typename Block::Activations> blocks;
    typename Norm::Statistics statistics;
    Matrix<element> normed;  // (rows, hidden)
    typename VocabularyParallelHead<L>::Activations head;
  };

  struct Gradients {
    Matrix<element> output;  // (rows, hidden): of the last block's output, from the head or the next stage; a
                             // boundary()
    std::vector<typename Block::Gradients> blocks;
  };

  struct Scratch {
    typename Block::Scratch block;
    Matrix<element> d_normed;  // (rows, hidden)
  };

  // Does not compile where the layout's attention does not take heads of this dimension.
  template <Index Dimension>
  struct CheckedHeads {
    static_assert(ops::attention_takes_heads_of<stream, element>(Dimension),
                  "attention on a device that runs kernels: the dimension of a head must be 256 at most, and "
                  "in 16 bits a multiple of 8");
  };

  Decoder(const Decoder&) = delete;  // its blocks refer to it
  Decoder& operator=(const Decoder&) = delete;

  // What passes from stage to stage, in either direction. Those of a microbatch come and go at other times
  // than its activations and gradients, so whoever plans the memory puts them in.
  Matrix<element> boundary(Arena& arena, const TokenShape& tokens) const {
    return arena.take<element>(tokens.rows(), shape_.hidden);
  }

  Activations activations(Arena& arena, const TokenShape& tokens) const;

  // Where input and weight gradients stand apart in time, each block needs gradients of its own; otherwise
  // all blocks share them, but for the two that meet.
  Gradients gradients(Arena& arena, const TokenShape& tokens, bool apart) const;

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.block = blocks_.front().scratch(arena, tokens),
            .d_normed = arena.take<element>(tokens.rows(), shape_.hidden)};
  }

  // Once the parameters have memory.
  void allocate(typename L::memory& memory);

  // Fills a.input where this is the first stage, then everything else in `a`.
  void forward(const stream& s, const Microbatch& microbatch, const Activations& a,
               const Scratch& scratch) const;

  Matrix<element> output(const Activations& a) const { return a.blocks.back().output; }

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
      blocks_[i].backward_input(s, microbatch.shape, block_input(a, i), a.blocks[i], d_block_output(g, i),
                                g.blocks[i], scratch.block, accumulate);
    }
  }

  // After backward_input. Calls final(first, last) with ranges of the gradient buffer as they are complete
  // for this microbatch.
  template <class Final>
  void backward_weight(const stream& s, const Microbatch& microbatch, const Activations& a,
                       const Gradients& g, Accumulate accumulate, Final&& final) const {
    backward_head_weight(s, a, accumulate);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      blocks_[i].backward_weight(s, a.blocks[i], d_block_output(g, i), g.blocks[i], accumulate);
      report_block(i, final);
    }
    backward_embedding(s, microbatch, g, accumulate, final);
  }

  // Both, block by block: the same operations on the same numbers, with shared gradient memory.
  template <class Final>
  void backward(const stream& s, const Microbatch& microbatch, const Activations& a, const Gradients& g,
                const Scratch& scratch, float loss_scale, Accumulate accumulate, Final&& final) const {
    backward_head(s, microbatch, a, g, scratch, loss_scale, accumulate);
    backward_head_weight(s, a, accumulate);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      blocks_[i].backward(s, microbatch.shape, block_input(a, i), a.blocks[i], d_block_output(g, i),
                          g.blocks[i], scratch.block, accumulate);
      report_block(i, final);
    }
    backward_embedding(s, microbatch, g, accumulate, final);
  }

  Matrix<element> input_gradient(const Gradients& g) const { return g.blocks.front().input; }

  // The table of a tied embedding and head, where this stage holds one: the first and the last stage do.
  const ParameterOf<L>* tied() const { return tied_ ? table_ : nullptr; }

  // Where one rank holds the first stage and the last, adds the head's gradient of a tied table to the
  // embedding's. Otherwise the two ranks' gradients are to be summed by the caller.
  void combine_tied(const stream& s) const {
    if (tied_ && stage_.last && !table_->spec.is_copy) {
      add(s, Vector<const float>(d_head_), table_->gradient);
    }
  }

  // The logits of row `row` that this rank holds, those of tokens first, first + 1, …; after forward.
  struct Logits {
    Index first;
    Vector<const element> values;
  };
  Logits logits(const Activations& a, Index row) const {
    const VocabularyPart& part = head_->part();
    return {.first = part.first, .values = a.head.logits[row].slice(0, 0, part.valid)};
  }

 protected:
  static constexpr float deviation = 0.02f;  // of the initial weights

  Decoder(const DecoderShape& shape, const StageRange& stage, const ModelSite<L>& site)
      : shape_(shape),
        stage_(stage),
        attention_({.sequence = site.sequence,
                    .heads = shape.heads / L::tensor_ranks,
                    .kv_heads = shape.kv_heads / L::tensor_ranks,
                    .dimension = shape.head_dimension,
                    .padding = site.padding},
                   mask::causal(), site.context_group, site.memory, site.stream) {}

  // Before all else: the embedding's table where this stage has the embedding, and where it has a head tied
  // to that.
  void add_table(ParametersOf<L>& parameters, const std::string& name, bool tied) {
    tied_ = tied;
    if (!stage_.first && !(tied && stage_.last)) return;
    ParameterSpec table = embedding_table<L>(name, shape_.vocabulary, shape_.hidden, deviation);
    table.is_copy = !stage_.first;
    table_ = parameters.find(name);  // where the rank holds the first stage and the last
    if (table_ == nullptr) table_ = &parameters.add(table);
    embedding_offset_ = tied ? parameters.end_of(*table_) : table_->offset;
  }

  // After all else, where this is the last stage. `name`: of the head's own table, if it is not tied.
  void add_head(const ModelSite<L>& site, const std::string& name = "") {
    if (stage_.last) {
      head_table_ =
          tied_ ? table_
                : &site.parameters.add(embedding_table<L>(name, shape_.vocabulary, shape_.hidden, deviation));
      head_.emplace(*head_table_, shape_.vocabulary, shape_.hidden, site.tensor_group);
    }
    last_offset_ = site.parameters.size();
  }

  DecoderShape shape_;
  StageRange stage_;
  Context attention_;
  const ParameterOf<L>* table_ = nullptr;  // of the embedding, and of a tied head
  std::optional<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::optional<Norm> norm_;

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

  // The gradients of a block's weights are complete. The last block's range takes the final norm along, and a
  // head of its own.
  template <class Final>
  void report_block(std::size_t i, Final&& final) const {
    final(blocks_[i].first_offset(), i + 1 < blocks_.size() ? blocks_[i + 1].first_offset() : last_offset_);
  }

  template <class Final>
  void backward_embedding(const stream& s, const Microbatch& microbatch, const Gradients& g,
                          Accumulate accumulate, Final&& final) const {
    if (!stage_.first) return;
    embedding_->backward_weight(s, microbatch.tokens, input_gradient(g), accumulate);
    final(embedding_offset_, blocks_.front().first_offset());
  }

  Matrix<const element> block_input(const Activations& a, std::size_t i) const {
    return i == 0 ? a.input : a.blocks[i - 1].output;
  }
  Matrix<const element> d_block_output(const Gradients& g, std::size_t i) const {
    return i + 1 < blocks_.size() ? g.blocks[i + 1].input : g.output;
  }

  bool tied_ = false;
  Index embedding_offset_ = 0;  // where the embedding's gradients begin that are final with the first block's
  std::optional<VocabularyParallelHead<L>> head_;
  const ParameterOf<L>* head_table_ = nullptr;
  Index last_offset_ = 0;
  typename L::device_type::allocation d_head_memory_;
  Vector<float> d_head_;  // the head's gradient of its table
};

template <class L, class Embedding, class Block>
void Decoder<L, Embedding, Block>::allocate(typename L::memory& memory) {
  if (!stage_.last) return;
  if (!tied_ || head_table_->spec.is_copy) {
    d_head_ =
        head_table_->gradient;  // of its own; of a tied copy, the first stage's rank has the embedding's
    return;
  }
  d_head_memory_ = memory.allocate(static_cast<std::size_t>(table_->gradient.size()) * sizeof(float));
  d_head_ = {reinterpret_cast<float*>(d_head_memory_.data()), table_->gradient.extents()};
}

template <class L, class Embedding, class Block>
typename Decoder<L, Embedding, Block>::Activations Decoder<L, Embedding, Block>::activations(
    Arena& arena, const TokenShape& tokens) const {
  Activations a;
  for (const Block& block : blocks_) a.blocks.push_back(block.activations(arena, tokens));
  if (stage_.last) {
    a.statistics = Norm::statistics(arena, tokens.rows());
    a.normed = arena.take<element>(tokens.rows(), shape_.hidden);
    a.head = head_->activations(arena, tokens.rows());
  }
  return a;
}

template <class L, class Embedding, class Block>
typename Decoder<L, Embedding, Block>::Gradients Decoder<L, Embedding, Block>::gradients(
    Arena& arena, const TokenShape& tokens, bool apart) const {
  Gradients g;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (apart || i == 0) {
      g.blocks.push_back(blocks_[i].gradients(arena, tokens));
      continue;
    }
    // A block reads the input gradient of the one after it while it writes its own.
    g.blocks.push_back(g.blocks[0]);
    if (i == 1) g.blocks[1].input = arena.take<element>(tokens.rows(), shape_.hidden);
    if (i > 1) g.blocks[i].input = g.blocks[i - 2].input;
  }
  return g;
}

template <class L, class Embedding, class Block>
void Decoder<L, Embedding, Block>::forward(const stream& s, const Microbatch& microbatch,
                                           const Activations& a, const Scratch& scratch) const {
  if (stage_.first) embedding_->forward(s, microbatch.tokens, a.input);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].forward(s, microbatch.shape, block_input(a, i), a.blocks[i], scratch.block);
  }
  if (stage_.last) {
    norm_->forward(s, output(a), a.normed, a.statistics);
    head_->forward(s, a.normed, a.head);
  }
}

}  // namespace trilith::inline v0
