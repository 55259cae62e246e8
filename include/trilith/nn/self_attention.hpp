// Causal self-attention of several heads, the heads split over tensor ranks: a column-parallel linear makes
// queries, keys and values of this rank's heads, a row-parallel one takes their results.
#pragma once

#include <cmath>
#include <string>

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
class CausalSelfAttention {
 public:
  using stream = typename L::stream;

  struct Activations {
    Matrix<float> qkv;      // (rows, 3 · hidden / TP): queries, keys, values of this rank's heads
    Matrix<float> context;  // (rows, hidden / TP): the heads' results
    View<float, 3> lse;     // (batch, heads / TP, sequence)
  };

  struct Scratch {
    Matrix<float> d_context;  // (rows, hidden / TP)
    View<float, 3> delta;     // (batch, heads / TP, sequence)
  };

  struct Names {
    std::string qkv;
    std::string projection;
  };

  // projection_deviation: of the initial weights of the output projection, which adds to the residual stream.
  CausalSelfAttention(Parameters<typename L::device_type>& parameters, const Names& names, Index hidden,
                      Index heads, float projection_deviation, typename L::communicator& tensor_group)
      : hidden_(hidden / L::tensor_ranks),
        heads_(heads / L::tensor_ranks),
        qkv_(parameters, names.qkv, {.in = hidden, .out = 3 * hidden, .parts = 3}, tensor_group),
        projection_(parameters, names.projection,
                    {.in = hidden, .out = hidden, .deviation = projection_deviation}, tensor_group) {}

  Activations activations(Arena& arena, const TokenShape& tokens) const {
    return {.qkv = arena.take<float>(tokens.rows(), 3 * hidden_),
            .context = arena.take<float>(tokens.rows(), hidden_),
            .lse = arena.take<float>(tokens.batch, heads_, tokens.sequence)};
  }

  Matrix<float> qkv_gradient(Arena& arena, const TokenShape& tokens) const {
    return arena.take<float>(tokens.rows(), 3 * hidden_);
  }

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.d_context = arena.take<float>(tokens.rows(), hidden_),
            .delta = arena.take<float>(tokens.batch, heads_, tokens.sequence)};
  }

  // y = the projection's product, without its bias: see projection_bias().
  void forward(const stream& s, const TokenShape& tokens, Matrix<const float> x,  // (rows, hidden)
               const Activations& activations, Matrix<float> y) const {           // (rows, hidden)
    qkv_.forward(s, x, activations.qkv);
    attention(s, part(activations.qkv, tokens, 0), part(activations.qkv, tokens, 1),
              part(activations.qkv, tokens, 2), scale(), ops::Mask::causal,
              heads_of(activations.context, tokens), activations.lse);
    projection_.product(s, activations.context, y);
  }
  Vector<const float> projection_bias() const { return projection_.bias(); }

  void backward_input(const stream& s, const TokenShape& tokens, const Activations& activations,
                      Matrix<const float> dy, Matrix<float> d_qkv, const Scratch& scratch,
                      Matrix<float> dx) const {
    projection_.backward_input(s, dy, scratch.d_context);
    attention_backward(s, part(activations.qkv, tokens, 0), part(activations.qkv, tokens, 1),
                       part(activations.qkv, tokens, 2), heads_of(activations.context, tokens),
                       activations.lse, heads_of(scratch.d_context, tokens), scale(), ops::Mask::causal,
                       scratch.delta, part(d_qkv, tokens, 0), part(d_qkv, tokens, 1), part(d_qkv, tokens, 2));
    qkv_.backward_input(s, d_qkv, dx);
  }

  void backward_weight(const stream& s, Matrix<const float> x, const Activations& activations,
                       Matrix<const float> dy, Matrix<const float> d_qkv, Accumulate accumulate) const {
    projection_.backward_weight(s, activations.context, dy, accumulate);
    qkv_.backward_weight(s, x, d_qkv, accumulate);
  }

 private:
  Index head_dimension() const { return hidden_ / heads_; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dimension())); }

  // (rows, heads · dimension) as (batch, sequence, heads, dimension).
  View<float, 4> heads_of(Matrix<float> x, const TokenShape& tokens) const {
    return {x.data(),
            {tokens.batch, tokens.sequence, heads_, head_dimension()},
            {tokens.sequence * x.stride(0), x.stride(0), head_dimension(), 1}};
  }

  // Queries (0), keys (1) or values (2) out of the fused rows.
  View<float, 4> part(Matrix<float> qkv, const TokenShape& tokens, Index index) const {
    return heads_of(qkv.slice(1, index * hidden_, hidden_), tokens);
  }

  Index hidden_;  // of this rank
  Index heads_;   // of this rank
  ColumnParallelLinear<L> qkv_;
  RowParallelLinear<L> projection_;
};

}  // namespace trilith::inline v0
