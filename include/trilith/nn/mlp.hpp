// The feed-forward part of a block, its hidden units split over tensor ranks: a column-parallel linear, what
// is done to each unit, a row-parallel linear. An Mlp has
//
//     activations(arena, rows), gradient(arena, rows)    what it keeps, and the gradient of `up`
//     forward(s, x, residual, activations, y)            y = residual + mlp(x)
//     backward_input(s, dy, activations, gradient, dx)   fills the gradient, then dx
//     backward_weight(s, x, activations, dy, gradient, accumulate)
#pragma once

#include <utility>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/linear.hpp>
#include <trilith/ops/accumulate.hpp>

namespace trilith::inline v0 {

// down(gelu(up(x)))
template <class L>
class GeluMlp {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  struct Activations {
    Matrix<element> up;         // (rows, feed_forward / TP): before the GELU
    Matrix<element> activated;  // (rows, feed_forward / TP): after it
  };

  // In the order in which their parameters lie.
  struct Linears {
    ColumnParallelLinear<L> up;
    RowParallelLinear<L> down;
  };

  explicit GeluMlp(Linears linears) : linears_(std::move(linears)) {}

  Activations activations(Arena& arena, Index rows) const {
    return {.up = gradient(arena, rows), .activated = arena.take<element>(rows, linears_.down.in())};
  }
  Matrix<element> gradient(Arena& arena, Index rows) const {
    return arena.take<element>(rows, linears_.up.out());
  }

  void forward(const stream& s, Matrix<const element> x,  // (rows, hidden)
               Matrix<const element> residual, const Activations& a, Matrix<element> y) const {
    linears_.up.forward_gelu(s, x, a.up, a.activated);
    linears_.down.product(s, a.activated, y);
    add_bias_residual(s, linears_.down.bias(), residual, y);
  }

  void backward_input(const stream& s, Matrix<const element> dy, const Activations& a, Matrix<element> d_up,
                      Matrix<element> dx) const {
    linears_.down.backward_input_gelu(s, dy, a.up, d_up);
    linears_.up.backward_input(s, d_up, dx);
  }

  void backward_weight(const stream& s, Matrix<const element> x, const Activations& a,
                       Matrix<const element> dy, Matrix<const element> d_up, Accumulate accumulate) const {
    linears_.down.backward_weight(s, a.activated, dy, accumulate);
    linears_.up.backward_weight(s, x, d_up, accumulate);
  }

 private:
  Linears linears_;
};

// down(silu(gate(x)) · up(x)), without biases: Shazeer, "GLU variants improve transformer", 2020.
template <class L>
class SwigluMlp {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  struct Activations {
    Matrix<element> gate_up;    // (rows, 2 · feed_forward / TP): gates, then what they let through
    Matrix<element> activated;  // (rows, feed_forward / TP)
  };

  // In the order in which their parameters lie. gate_up: a linear of two outputs.
  struct Linears {
    ColumnParallelLinear<L> gate_up;
    RowParallelLinear<L> down;
  };

  explicit SwigluMlp(Linears linears) : linears_(std::move(linears)) {}

  Activations activations(Arena& arena, Index rows) const {
    return {.gate_up = gradient(arena, rows), .activated = arena.take<element>(rows, linears_.down.in())};
  }
  Matrix<element> gradient(Arena& arena, Index rows) const {
    return arena.take<element>(rows, linears_.gate_up.out());
  }

  void forward(const stream& s, Matrix<const element> x,  // (rows, hidden)
               Matrix<const element> residual, const Activations& a, Matrix<element> y) const {
    linears_.gate_up.forward(s, x, a.gate_up);
    swiglu(s, gate(a.gate_up), up(a.gate_up), a.activated);
    linears_.down.forward(s, a.activated, y);
    add(s, flat(residual), flat(y));
  }

  // The gradient of `activated` lies where that of the gates will.
  void backward_input(const stream& s, Matrix<const element> dy, const Activations& a,
                      Matrix<element> d_gate_up, Matrix<element> dx) const {
    linears_.down.backward_input(s, dy, gate(d_gate_up));
    swiglu_backward(s, gate(a.gate_up), up(a.gate_up), gate(d_gate_up), gate(d_gate_up), up(d_gate_up));
    linears_.gate_up.backward_input(s, d_gate_up, dx);
  }

  void backward_weight(const stream& s, Matrix<const element> x, const Activations& a,
                       Matrix<const element> dy, Matrix<const element> d_gate_up,
                       Accumulate accumulate) const {
    linears_.down.backward_weight(s, a.activated, dy, accumulate);
    linears_.gate_up.backward_weight(s, x, d_gate_up, accumulate);
  }

 private:
  static Matrix<element> gate(Matrix<element> gate_up) { return gate_up.slice(1, 0, gate_up.extent(1) / 2); }
  static Matrix<element> up(Matrix<element> gate_up) {
    return gate_up.slice(1, gate_up.extent(1) / 2, gate_up.extent(1) / 2);
  }

  Linears linears_;
};

}  // namespace trilith::inline v0
