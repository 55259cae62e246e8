// RmsNorm (Zhang, Sennrich, 2019) over the hidden dimension, which no axis splits: its parameter is whole on
// every tensor rank, and so is its gradient.
#pragma once

#include <string>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host.hpp>

namespace trilith::inline v0 {

template <class L>
class RmsNorm {
 public:
  using stream = typename L::stream;

  // What forward leaves for backward.
  struct Statistics {
    Vector<float> rstd;  // (rows)
  };

  static Statistics statistics(Arena& arena, Index rows) { return {.rstd = arena.take<float>(rows)}; }

  RmsNorm(Parameters<typename L::device_type>& parameters, const std::string& name, Index hidden,
          float epsilon)
      : epsilon_(epsilon),
        gamma_(&parameters.add({.name = name + ".weight",
                                .shape = {hidden},
                                .partition = {.extent = hidden},
                                .initial = Initial::ones})) {}

  void forward(const stream& s, Matrix<const float> x, Matrix<float> y, const Statistics& statistics) const {
    rms_norm(s, x, gamma_->value, epsilon_, y, statistics.rstd);
  }

  // x = x + bias + residual, y = norm of that: what follows a row-parallel linear. `bias` may be empty.
  void forward_residual(const stream& s, Vector<const float> bias, Matrix<const float> residual,
                        Matrix<float> x, Matrix<float> y, const Statistics& statistics) const {
    if (bias.size() > 0) add_bias(s, bias, x);
    add_residual_rms_norm(s, residual, x, gamma_->value, epsilon_, y, statistics.rstd);
  }

  // dx = the gradient through the norm. The gradient of gamma comes out of the same pass over the rows.
  void backward(const stream& s, Matrix<const float> dy, Matrix<const float> x, const Statistics& statistics,
                Matrix<float> dx, Accumulate accumulate) const {
    rms_norm_backward(s, dy, x, gamma_->value, statistics.rstd, dx, gamma_->gradient, accumulate);
  }

  // dx = d_residual + the gradient through the norm.
  void backward_residual(const stream& s, Matrix<const float> dy, Matrix<const float> x,
                         const Statistics& statistics, Matrix<const float> d_residual, Matrix<float> dx,
                         Accumulate accumulate) const {
    rms_norm_backward(s, dy, x, gamma_->value, statistics.rstd, d_residual, dx, gamma_->gradient, accumulate);
  }

  Index first_offset() const { return gamma_->offset; }

 private:
  float epsilon_;
  const Parameter* gamma_;
};

}  // namespace trilith::inline v0
