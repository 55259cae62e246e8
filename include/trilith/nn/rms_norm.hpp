// RmsNorm (Zhang, Sennrich, 2019) over the hidden dimension, which no axis splits: its parameter is whole on
// every tensor rank, and so is its gradient.
#pragma once

#include <string>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>

namespace trilith::inline v0 {

template <class L>
class RmsNorm {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  // What forward leaves for backward.
  struct Statistics {
    Vector<float> rstd;  // (rows)
  };

  static Statistics statistics(Arena& arena, Index rows) { return {.rstd = arena.take<float>(rows)}; }

  RmsNorm(ParametersOf<L>& parameters, const std::string& name, Index hidden, float epsilon)
      : epsilon_(epsilon),
        gamma_(&parameters.add({.name = name + ".weight",
                                .shape = {hidden},
                                .partition = {.extent = hidden},
                                .initial = Initial::ones})) {}

  void forward(const stream& s, Matrix<const element> x, Matrix<element> y,
               const Statistics& statistics) const {
    rms_norm(s, x, gamma_->weight, epsilon_, y, statistics.rstd);
  }

  // x = x + bias + residual, y = norm of that: what follows a row-parallel linear. `bias` may be empty.
  void forward_residual(const stream& s, Vector<const element> bias, Matrix<const element> residual,
                        Matrix<element> x, Matrix<element> y, const Statistics& statistics) const {
    if (bias.size() > 0) add_bias(s, bias, x);
    add_residual_rms_norm(s, residual, x, gamma_->weight, epsilon_, y, statistics.rstd);
  }

  // dx = the gradient through the norm. The gradient of gamma comes out of the same pass over the rows.
  void backward(const stream& s, Matrix<const element> dy, Matrix<const element> x,
                const Statistics& statistics, Matrix<element> dx, Accumulate accumulate) const {
    rms_norm_backward(s, dy, x, gamma_->weight, statistics.rstd, dx, gamma_->gradient, accumulate);
  }

  // dx = d_residual + the gradient through the norm.
  void backward_residual(const stream& s, Matrix<const element> dy, Matrix<const element> x,
                         const Statistics& statistics, Matrix<const element> d_residual, Matrix<element> dx,
                         Accumulate accumulate) const {
    rms_norm_backward(s, dy, x, gamma_->weight, statistics.rstd, d_residual, dx, gamma_->gradient,
                      accumulate);
  }

  Index first_offset() const { return gamma_->offset; }

 private:
  float epsilon_;
  const ParameterOf<L>* gamma_;
};

}  // namespace trilith::inline v0
