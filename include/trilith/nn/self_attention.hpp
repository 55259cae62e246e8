// Self-attention of several heads, the heads split over tensor ranks and the sequence over context ranks: a
// column-parallel linear makes queries, keys and values of this rank's heads, a row-parallel one takes their
// results. Which keys a query sees is up to the ContextAttention that all layers of a model share; it also
// says how many heads there are, and key/value heads.
#pragma once

#include <cmath>
#include <concepts>
#include <utility>

#include <trilith/attention/context_attention.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/side_stream.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/linear.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0 {

template <class L>
class SelfAttention {
 public:
  using stream = typename L::stream;
  using element = typename L::element;
  using Context =
      ContextAttention<typename L::attention, typename L::device_type, typename L::communicator, element>;

  struct Activations {
    Matrix<element> qkv;  // (rows, (heads + 2 · kv_heads) · dimension): queries, keys, values of this rank's
                          // heads; queries and keys rotated, where there is a rotary embedding
    Matrix<element> context;  // (rows, heads · dimension): the heads' results
    View<float, 3> lse;       // (batch, heads, sequence / CP)
    typename Context::Saved saved;
  };

  struct Scratch {
    Matrix<element> d_context;  // (rows, heads · dimension)
    typename Context::Scratch context;
  };

  // In the order in which their parameters lie.
  struct Linears {
    ColumnParallelLinear<L> qkv;
    RowParallelLinear<L> projection;
  };

  // `attention` is of this rank's heads, and must outlive the layer. rotary: (rows, dimension), the table of
  // a rotary embedding; empty: none.
  SelfAttention(Linears linears, const Context& attention, Matrix<const float> rotary = {})
      : linears_(std::move(linears)), attention_(&attention), rotary_(rotary) {}

  Activations activations(Arena& arena, const TokenShape& tokens) const {
    return {.qkv = arena.take<element>(tokens.rows(), linears_.qkv.out()),
            .context = arena.take<element>(tokens.rows(), linears_.projection.in()),
            .lse = arena.take<float>(tokens.batch, shape().heads, tokens.sequence),
            .saved = attention_->saved(arena, tokens.batch)};
  }

  Matrix<element> qkv_gradient(Arena& arena, const TokenShape& tokens) const {
    return arena.take<element>(tokens.rows(), linears_.qkv.out());
  }

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.d_context = arena.take<element>(tokens.rows(), linears_.projection.in()),
            .context = attention_->scratch(arena, tokens.batch)};
  }

  // y = the projection's product, without its bias: see projection_bias().
  void forward(const stream& s, const TokenShape& tokens, Matrix<const element> x,  // (rows, hidden)
               const Activations& activations, const Scratch& scratch,
               Matrix<element> y) const {  // (rows, hidden)
    linears_.qkv.forward(s, x, activations.qkv);
    if (has_rotary()) rotary(s, rotary_, queries_and_keys(activations.qkv, tokens));
    attention_->forward(s, settings(), parts(activations.qkv, tokens), heads_of(activations.context, tokens),
                        activations.lse, activations.saved, scratch.context);
    linears_.projection.product(s, activations.context, y);
  }
  Vector<const element> projection_bias() const { return linears_.projection.bias(); }

  void backward_input(const stream& s, const TokenShape& tokens, const Activations& activations,
                      Matrix<const element> dy, Matrix<element> d_qkv, const Scratch& scratch,
                      Matrix<element> dx) const {
    backward_input(s, tokens, activations, dy, d_qkv, scratch, dx, [] {});
  }

  void backward_weight(const stream& s, Matrix<const element> x, const Activations& activations,
                       Matrix<const element> dy, Matrix<const element> d_qkv, Accumulate accumulate) const {
    linears_.projection.backward_weight(s, activations.context, dy, accumulate);
    linears_.qkv.backward_weight(s, x, d_qkv, accumulate);
  }

  // Both. `beside()` gives s what is to run beside the heads' backward pass, as the projection's weight
  // gradient does: it may read `activations` and dy, and has nothing to do with d_qkv, dx and scratch.
  template <std::invocable Beside>
  void backward(const stream& s, const TokenShape& tokens, Matrix<const element> x,
                const Activations& activations, Matrix<const element> dy, Matrix<element> d_qkv,
                const Scratch& scratch, Matrix<element> dx, Accumulate accumulate, Beside&& beside) const {
    backward_input(s, tokens, activations, dy, d_qkv, scratch, dx, [&] {
      beside();
      linears_.projection.backward_weight(s, activations.context, dy, accumulate);
    });
    linears_.qkv.backward_weight(s, x, d_qkv, accumulate);
  }

 private:
  template <std::invocable Beside>
  void backward_input(const stream& s, const TokenShape& tokens, const Activations& activations,
                      Matrix<const element> dy, Matrix<element> d_qkv, const Scratch& scratch,
                      Matrix<element> dx, Beside&& beside) const {
    linears_.projection.backward_input(s, dy, scratch.d_context);
    SideWork<stream> heads = attention_->begin_backward(
        s, settings(), parts(activations.qkv, tokens), heads_of(activations.context, tokens), activations.lse,
        heads_of(scratch.d_context, tokens), parts(d_qkv, tokens), activations.saved, scratch.context);
    beside();
    heads.join();
    if (has_rotary()) rotary_backward(s, rotary_, queries_and_keys(d_qkv, tokens));
    linears_.qkv.backward_input(s, d_qkv, dx);
  }

  const AttentionShape& shape() const { return attention_->shape(); }
  bool has_rotary() const { return rotary_.size() > 0; }
  ops::AttentionSettings settings() const {
    return {.scale = 1.0f / std::sqrt(static_cast<float>(shape().dimension))};
  }

  // (rows, heads · dimension) as (batch, sequence, heads, dimension).
  View<element, 4> heads_of(Matrix<element> x, const TokenShape& tokens) const {
    const Index dimension = shape().dimension;
    return {x.data(),
            {tokens.batch, tokens.sequence, x.extent(1) / dimension, dimension},
            {tokens.sequence * x.stride(0), x.stride(0), dimension, 1}};
  }

  // Queries, keys and values out of the fused rows.
  Projections<element> parts(Matrix<element> qkv, const TokenShape& tokens) const {
    const View<element, 4> heads = heads_of(qkv, tokens);
    const Index queries = shape().heads;
    const Index keys = shape().kv_heads;
    return {heads.slice(2, 0, queries), heads.slice(2, queries, keys), heads.slice(2, queries + keys, keys)};
  }

  // Side by side, as one run of heads.
  View<element, 4> queries_and_keys(Matrix<element> qkv, const TokenShape& tokens) const {
    return heads_of(qkv, tokens).slice(2, 0, shape().heads + shape().kv_heads);
  }

  Linears linears_;
  const Context* attention_;
  Matrix<const float> rotary_;
};

}  // namespace trilith::inline v0
