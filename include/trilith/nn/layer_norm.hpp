// LayerNorm (Ba, Kiros, Hinton, 2016) over the hidden dimension, which no axis splits: its parameters are
// whole on every tensor rank, and so are their gradients.
#pragma once

#include <string>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>

namespace trilith::inline v0 {

template <class L>
class LayerNorm {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  static constexpr float epsilon = 1e-5f;

  // What forward leaves for backward.
  struct Statistics {
    Vector<float> mean;  // (rows)
    Vector<float> rstd;  // (rows)
  };

  static Statistics statistics(Arena& arena, Index rows) {
    return {.mean = arena.take<float>(rows), .rstd = arena.take<float>(rows)};
  }

  LayerNorm(ParametersOf<L>& parameters, const std::string& name, Index hidden)
      : gamma_(&parameters.add({.name = name + ".weight",
                                .shape = {hidden},
                                .partition = {.extent = hidden},
                                .initial = Initial::ones})),
        beta_(&parameters.add({.name = name + ".bias", .shape = {hidden}, .partition = {.extent = hidden}})) {
  }

  void forward(const stream& s, Matrix<const element> x, Matrix<element> y,
               const Statistics& statistics) const {
    layer_norm(s, x, gamma_->weight, beta_->weight, epsilon, y, statistics.mean, statistics.rstd);
  }

  // x = x + bias + residual, y = norm of that: what follows a row-parallel linear.
  void forward_residual(const stream& s, Vector<const element> bias, Matrix<const element> residual,
                        Matrix<element> x, Matrix<element> y, const Statistics& statistics) const {
    add_bias_residual_layer_norm(s, bias, residual, x, gamma_->weight, beta_->weight, epsilon, y,
                                 statistics.mean, statistics.rstd);
  }

  // dx = the gradient through the norm. The gradients of gamma and beta come out of the same pass over the
  // rows; a second one, as a weight gradient of its own, would read everything again.
  void backward(const stream& s, Matrix<const element> dy, Matrix<const element> x,
                const Statistics& statistics, Matrix<element> dx, Accumulate accumulate) const {
    layer_norm_backward(s, dy, x, gamma_->weight, statistics.mean, statistics.rstd, dx, gamma_->gradient,
                        beta_->gradient, accumulate);
  }

  // dx = d_residual + the gradient through the norm.
  void backward_residual(const stream& s, Matrix<const element> dy, Matrix<const element> x,
                         const Statistics& statistics, Matrix<const element> d_residual, Matrix<element> dx,
                         Accumulate accumulate) const {
    layer_norm_backward(s, dy, x, gamma_->weight, statistics.mean, statistics.rstd, d_residual, dx,
                        gamma_->gradient, beta_->gradient, accumulate);
  }

  Index first_offset() const { return gamma_->offset; }

 private:
  const ParameterOf<L>* gamma_;
  const ParameterOf<L>* beta_;
};

}  // namespace trilith::inline v0
