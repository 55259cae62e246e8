// A pre-norm transformer block:
//
//     middle = x + attention(norm_1(x))
//     output = middle + mlp(norm_2(middle))
//
// Norm: LayerNorm or RmsNorm. Mlp: GeluMlp or SwigluMlp. Two all-reduces forward (the outputs of the
// projection and of the Mlp), two backward (the input gradients of the Mlp and of the qkv linear), each of
// batch · sequence · hidden elements.
#pragma once

#include <utility>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/microbatch.hpp>
#include <trilith/nn/self_attention.hpp>
#include <trilith/ops/accumulate.hpp>

namespace trilith::inline v0 {

template <class L, class NormLayer, class MlpLayer>
class TransformerBlock {
 public:
  using stream = typename L::stream;
  using element = typename L::element;
  using Norm = NormLayer;
  using Mlp = MlpLayer;

  // Of one microbatch, from its forward pass to its weight gradients.
  struct Activations {
    typename Norm::Statistics statistics_1;
    Matrix<element> normed_1;  // (rows, hidden)
    typename SelfAttention<L>::Activations attention;
    Matrix<element> middle;  // (rows, hidden)
    typename Norm::Statistics statistics_2;
    Matrix<element> normed_2;  // (rows, hidden)
    typename Mlp::Activations mlp;
    Matrix<element> output;  // (rows, hidden)
  };

  // Of one microbatch, from its input gradients to its weight gradients.
  struct Gradients {
    Matrix<element> mlp;     // (rows, as many as the Mlp's first linear has outputs)
    Matrix<element> middle;  // (rows, hidden)
    Matrix<element> qkv;     // (rows, (heads + 2 · kv_heads) · dimension / TP)
    Matrix<element> input;   // (rows, hidden): what goes on to the block before
  };

  // Of the rank: used within one call.
  struct Scratch {
    Matrix<element> d_normed;  // (rows, hidden)
    typename SelfAttention<L>::Scratch attention;
  };

  // In the order in which their parameters lie.
  struct Layers {
    Norm norm_1;
    SelfAttention<L> attention;
    Norm norm_2;
    Mlp mlp;
  };

  TransformerBlock(Index hidden, Layers layers) : hidden_(hidden), layers_(std::move(layers)) {}

  Activations activations(Arena& arena, const TokenShape& tokens) const {
    const Index rows = tokens.rows();
    return {.statistics_1 = Norm::statistics(arena, rows),
            .normed_1 = arena.take<element>(rows, hidden_),
            .attention = layers_.attention.activations(arena, tokens),
            .middle = arena.take<element>(rows, hidden_),
            .statistics_2 = Norm::statistics(arena, rows),
            .normed_2 = arena.take<element>(rows, hidden_),
            .mlp = layers_.mlp.activations(arena, rows),
            .output = arena.take<element>(rows, hidden_)};
  }

  Gradients gradients(Arena& arena, const TokenShape& tokens) const {
    const Index rows = tokens.rows();
    return {.mlp = layers_.mlp.gradient(arena, rows),
            .middle = arena.take<element>(rows, hidden_),
            .qkv = layers_.attention.qkv_gradient(arena, tokens),
            .input = arena.take<element>(rows, hidden_)};
  }

  Scratch scratch(Arena& arena, const TokenShape& tokens) const {
    return {.d_normed = arena.take<element>(tokens.rows(), hidden_),
            .attention = layers_.attention.scratch(arena, tokens)};
  }

  void forward(const stream& s, const TokenShape& tokens, Matrix<const element> x,  // (rows, hidden)
               const Activations& a, const Scratch& scratch) const {
    const auto& [norm_1, attention, norm_2, mlp] = layers_;
    norm_1.forward(s, x, a.normed_1, a.statistics_1);
    attention.forward(s, tokens, a.normed_1, a.attention, scratch.attention, a.middle);
    norm_2.forward_residual(s, attention.projection_bias(), x, a.middle, a.normed_2, a.statistics_2);
    mlp.forward(s, a.normed_2, a.middle, a.mlp, a.output);
  }

  // Fills `g` from the gradient of the output; the norms' parameters get their gradients here.
  void backward_input(const stream& s, const TokenShape& tokens, Matrix<const element> x,
                      const Activations& a, Matrix<const element> d_output, const Gradients& g,
                      const Scratch& scratch, Accumulate accumulate) const {
    const auto& [norm_1, attention, norm_2, mlp] = layers_;
    backward_middle(s, a, d_output, g, scratch, accumulate);
    attention.backward_input(s, tokens, a.attention, g.middle, g.qkv, scratch.attention, scratch.d_normed);
    norm_1.backward_residual(s, scratch.d_normed, x, a.statistics_1, g.middle, g.input, accumulate);
  }

  void backward_weight(const stream& s, const Activations& a, Matrix<const element> d_output,
                       const Gradients& g, Accumulate accumulate) const {
    layers_.mlp.backward_weight(s, a.normed_2, a.mlp, d_output, g.mlp, accumulate);
    layers_.attention.backward_weight(s, a.normed_1, a.attention, g.middle, g.qkv, accumulate);
  }

  // Both: the same operations on the same numbers. The weight gradients of the Mlp and of the projection run
  // beside the heads' backward pass, where the device has streams for that.
  void backward(const stream& s, const TokenShape& tokens, Matrix<const element> x, const Activations& a,
                Matrix<const element> d_output, const Gradients& g, const Scratch& scratch,
                Accumulate accumulate) const {
    const auto& [norm_1, attention, norm_2, mlp] = layers_;
    backward_middle(s, a, d_output, g, scratch, accumulate);
    attention.backward(
        s, tokens, a.normed_1, a.attention, g.middle, g.qkv, scratch.attention, scratch.d_normed, accumulate,
        [&] { layers_.mlp.backward_weight(s, a.normed_2, a.mlp, d_output, g.mlp, accumulate); });
    norm_1.backward_residual(s, scratch.d_normed, x, a.statistics_1, g.middle, g.input, accumulate);
  }

  // The block's parameters lie in the buffers from here on.
  Index first_offset() const { return layers_.norm_1.first_offset(); }

 private:
  // From the output to what lies between attention and Mlp.
  void backward_middle(const stream& s, const Activations& a, Matrix<const element> d_output,
                       const Gradients& g, const Scratch& scratch, Accumulate accumulate) const {
    layers_.mlp.backward_input(s, d_output, a.mlp, g.mlp, scratch.d_normed);
    layers_.norm_2.backward_residual(s, scratch.d_normed, a.middle, a.statistics_2, d_output, g.middle,
                                     accumulate);
  }

  Index hidden_;
  Layers layers_;
};

}  // namespace trilith::inline v0
