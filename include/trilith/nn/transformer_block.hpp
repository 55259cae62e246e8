// A pre-LayerNorm transformer block (GPT-2):
//
//     middle = x + attention(norm_1(x))
//     output = middle + down(gelu(up(norm_2(middle))))
//
// Two all-reduces forward (the outputs of the projection and of `down`), two backward (the input gradients
// of `up` and of the qkv linear), each of batch · sequence · hidden elements.
#pragma once

#include <string>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_norm.hpp>
#include <trilith/nn/linear.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/nn/self_attention.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host.hpp>

namespace trilith::inline v0 {

struct BlockShape {
  Index hidden;
  Index heads;
  Index feed_forward;
  float residual_deviation;  // of the initial weights of the two linears that add to the residual stream
};

template <class L>
class TransformerBlock {
 public:
  using stream = typename L::stream;

  // Of one microbatch, from its forward pass to its weight gradients.
  struct Activations {
    typename LayerNorm<L>::Statistics statistics_1;
    Matrix<float> normed_1;  // (rows, hidden)
    typename SelfAttention<L>::Activations attention;
    Matrix<float> middle;  // (rows, hidden)
    typename LayerNorm<L>::Statistics statistics_2;
    Matrix<float> normed_2;   // (rows, hidden)
    Matrix<float> up;         // (rows, feed_forward / TP): before the GELU
    Matrix<float> activated;  // (rows, feed_forward / TP): after it
    Matrix<float> output;     // (rows, hidden)
  };

  // Of one microbatch, from its input gradients to its weight gradients.
  struct Gradients {
    Matrix<float> up;      // (rows, feed_forward / TP)
    Matrix<float> middle;  // (rows, hidden)
    Matrix<float> qkv;     // (rows, 3 · hidden / TP)
    Matrix<float> input;   // (rows, hidden): what goes on to the block before
  };

  // Of the rank: used within one call.
  struct Scratch {
    Matrix<float> d_normed;  // (rows, hidden)
    typename SelfAttention<L>::Scratch attention;
  };

  // Names are GPT-2's, as Hugging Face writes them. `attention` must outlive the block.
  TransformerBlock(Parameters<typename L::device_type>& parameters, const std::string& name,
                   const BlockShape& shape, typename L::communicator& tensor_group,
                   const typename SelfAttention<L>::Context& attention)
      : hidden_(shape.hidden),
        feed_forward_(shape.feed_forward / L::tensor_ranks),
        norm_1_(parameters, name + ".ln_1", shape.hidden),
        attention_(parameters, {.qkv = name + ".attn.c_attn", .projection = name + ".attn.c_proj"},
                   shape.hidden, shape.heads, shape.residual_deviation, tensor_group, attention),
        norm_2_(parameters, name + ".ln_2", shape.hidden),
        up_(parameters, name + ".mlp.c_fc", {.in = shape.hidden, .out = shape.feed_forward}, tensor_group),
        down_(parameters, name + ".mlp.c_proj",
              {.in = shape.feed_forward, .out = shape.hidden, .deviation = shape.residual_deviation},
              tensor_group) {}

  Activations activations(Arena& arena, const TokenShape& tokens) const {
    const Index rows = tokens.rows();
    return {.statistics_1 = LayerNorm<L>::statistics(arena, rows),
            .normed_1 = arena.take<float>(rows, hidden_),
            .attention = attention_.activations(arena, tokens),
            .middle = arena.take<float>(rows, hidden_),
            .statistics_2 = LayerNorm<L>::statistics(arena, rows),
            .normed_2 = arena.take<float>(rows, hidden_),
            .up = arena.take<float>(rows, feed_forward_),
            .activated = arena.take<float>(rows, feed_forward_),
            .output = arena.take<float>(rows, hidden_)};
  }

  Gradients gradients(Arena& arena, const TokenShape& tokens) const {
    const Index rows = tokens.rows();
    return {.up = arena.take<float>(rows, feed_forward_),
            .middle = arena.take<float>(rows, hidden_),
            .qkv = attention_.qkv_gradient(arena, tokens),
            .input = arena.take<float>(rows, hidden_)};
  }

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.d_normed = arena.take<float>(tokens.rows(), hidden_),
            .attention = attention_.scratch(arena, tokens)};
  }

  void forward(const stream& s, const TokenShape& tokens, Matrix<const float> x,  // (rows, hidden)
               const Activations& a, const Scratch& scratch) const {
    norm_1_.forward(s, x, a.normed_1, a.statistics_1);
    attention_.forward(s, tokens, a.normed_1, a.attention, scratch.attention, a.middle);
    norm_2_.forward_residual(s, attention_.projection_bias(), x, a.middle, a.normed_2, a.statistics_2);
    up_.product(s, a.normed_2, a.up);
    add_bias_gelu(s, up_.bias(), a.up, a.activated);
    down_.product(s, a.activated, a.output);
    add_bias_residual(s, down_.bias(), a.middle, a.output);
  }

  // Fills `g` from the gradient of the output; the norms' parameters get their gradients here.
  void backward_input(const stream& s, const TokenShape& tokens, Matrix<const float> x, const Activations& a,
                      Matrix<const float> d_output, const Gradients& g, const Scratch& scratch,
                      Accumulate accumulate) const {
    down_.backward_input(s, d_output, g.up);
    gelu_backward(s, a.up, g.up);
    up_.backward_input(s, g.up, scratch.d_normed);
    norm_2_.backward_residual(s, scratch.d_normed, a.middle, a.statistics_2, d_output, g.middle, accumulate);
    attention_.backward_input(s, tokens, a.attention, g.middle, g.qkv, scratch.attention, scratch.d_normed);
    norm_1_.backward_residual(s, scratch.d_normed, x, a.statistics_1, g.middle, g.input, accumulate);
  }

  void backward_weight(const stream& s, const Activations& a, Matrix<const float> d_output,
                       const Gradients& g, Accumulate accumulate) const {
    down_.backward_weight(s, a.activated, d_output, accumulate);
    up_.backward_weight(s, a.normed_2, g.up, accumulate);
    attention_.backward_weight(s, a.normed_1, a.attention, g.middle, g.qkv, accumulate);
  }

  // The block's parameters lie in the buffers from here on.
  Index first_offset() const { return norm_1_.first_offset(); }

 private:
  Index hidden_;
  Index feed_forward_;  // of this rank
  LayerNorm<L> norm_1_;
  SelfAttention<L> attention_;
  LayerNorm<L> norm_2_;
  ColumnParallelLinear<L> up_;
  RowParallelLinear<L> down_;
};

}  // namespace trilith::inline v0
