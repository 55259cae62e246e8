// Self-attention of several heads, the heads split over tensor ranks and the sequence over context ranks: a
// column-parallel linear makes queries, keys and values of this rank's heads, a row-parallel one takes their
// results. Which keys a query sees is up to the ContextAttention that all layers of a model share.
#pragma once

#include <cmath>
#include <string>

#include <trilith/attention/context_attention.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/linear.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host.hpp>

namespace trilith::inline v0 {

template <class L>
class SelfAttention {
 public:
  using stream = typename L::stream;
  using Context = ContextAttention<typename L::attention, typename L::device_type, typename L::communicator>;

  struct Activations {
    Matrix<float> qkv;      // (rows, 3 · hidden / TP): queries, keys, values of this rank's heads
    Matrix<float> context;  // (rows, hidden / TP): the heads' results
    View<float, 3> lse;     // (batch, heads / TP, sequence / CP)
    typename Context::Saved saved;
  };

  struct Scratch {
    Matrix<float> d_context;  // (rows, hidden / TP)
    typename Context::Scratch context;
  };

  struct Names {
    std::string qkv;
    std::string projection;
  };

  // projection_deviation: of the initial weights of the output projection, which adds to the residual stream.
  // `attention` is of this rank's heads, and must outlive the layer.
  SelfAttention(Parameters<typename L::device_type>& parameters, const Names& names, Index hidden,
                Index heads, float projection_deviation, typename L::communicator& tensor_group,
                const Context& attention)
      : hidden_(hidden / L::tensor_ranks),
        heads_(heads / L::tensor_ranks),
        attention_(&attention),
        qkv_(parameters, names.qkv, {.in = hidden, .out = 3 * hidden, .parts = 3}, tensor_group),
        projection_(parameters, names.projection,
                    {.in = hidden, .out = hidden, .deviation = projection_deviation}, tensor_group) {}

  Activations activations(Arena& arena, const TokenShape& tokens) const {
    return {.qkv = arena.take<float>(tokens.rows(), 3 * hidden_),
            .context = arena.take<float>(tokens.rows(), hidden_),
            .lse = arena.take<float>(tokens.batch, heads_, tokens.sequence),
            .saved = attention_->saved(arena, tokens.batch)};
  }

  Matrix<float> qkv_gradient(Arena& arena, const TokenShape& tokens) const {
    return arena.take<float>(tokens.rows(), 3 * hidden_);
  }

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.d_context = arena.take<float>(tokens.rows(), hidden_),
            .context = attention_->scratch(arena, tokens.batch)};
  }

  // y = the projection's product, without its bias: see projection_bias().
  void forward(const stream& s, const TokenShape& tokens, Matrix<const float> x,  // (rows, hidden)
               const Activations& activations, const Scratch& scratch,
               Matrix<float> y) const {  // (rows, hidden)
    qkv_.forward(s, x, activations.qkv);
    attention_->forward(s, settings(), parts(activations.qkv, tokens), heads_of(activations.context, tokens),
                        activations.lse, activations.saved, scratch.context);
    projection_.product(s, activations.context, y);
  }
  Vector<const float> projection_bias() const { return projection_.bias(); }

  void backward_input(const stream& s, const TokenShape& tokens, const Activations& activations,
                      Matrix<const float> dy, Matrix<float> d_qkv, const Scratch& scratch,
                      Matrix<float> dx) const {
    projection_.backward_input(s, dy, scratch.d_context);
    attention_->backward(s, settings(), parts(activations.qkv, tokens), heads_of(activations.context, tokens),
                         activations.lse, heads_of(scratch.d_context, tokens), parts(d_qkv, tokens),
                         activations.saved, scratch.context);
    qkv_.backward_input(s, d_qkv, dx);
  }

  void backward_weight(const stream& s, Matrix<const float> x, const Activations& activations,
                       Matrix<const float> dy, Matrix<const float> d_qkv, Accumulate accumulate) const {
    projection_.backward_weight(s, activations.context, dy, accumulate);
    qkv_.backward_weight(s, x, d_qkv, accumulate);
  }

 private:
  Index head_dimension() const { return hidden_ / heads_; }
  ops::AttentionSettings settings() const {
    return {.scale = 1.0f / std::sqrt(static_cast<float>(head_dimension()))};
  }

  // (rows, heads · dimension) as (batch, sequence, heads, dimension).
  View<float, 4> heads_of(Matrix<float> x, const TokenShape& tokens) const {
    return {x.data(),
            {tokens.batch, tokens.sequence, heads_, head_dimension()},
            {tokens.sequence * x.stride(0), x.stride(0), head_dimension(), 1}};
  }

  // Queries, keys and values out of the fused rows.
  Projections<float> parts(Matrix<float> qkv, const TokenShape& tokens) const {
    const auto part = [&](Index i) { return heads_of(qkv.slice(1, i * hidden_, hidden_), tokens); };
    return {part(0), part(1), part(2)};
  }

  Index hidden_;  // of this rank
  Index heads_;   // of this rank
  const Context* attention_;
  ColumnParallelLinear<L> qkv_;
  RowParallelLinear<L> projection_;
};

}  // namespace trilith::inline v0
