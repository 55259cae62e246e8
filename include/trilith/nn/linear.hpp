// Tensor-parallel linears. A column-parallel linear splits its output, a row-parallel one its input; one
// after the other needs a single all-reduce in the forward pass (of the row-parallel output, which is a
// partial sum on each rank) and one in the backward pass (of the column-parallel input's gradient).
//
// Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model
// parallelism", 2019. y = x · W + b with a weight (in, out), as GPT-2's Conv1D has it, or y = x · Wᵀ with one
// of (out, in) and no bias, as Llama's nn.Linear. Outputs are overwritten; weight gradients are overwritten
// or added to, as the caller says. With TP = 1 there is no communication and none is compiled.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/fused_gemm.hpp>
#include <trilith/ops/gemm.hpp>

namespace trilith::inline v0 {

// What a linear's weight is in memory and in files.
enum class WeightLayout { in_out, out_in };

struct LinearShape {
  Index in;
  Index out;
  float deviation = 0.02f;  // of the initial weights
  int parts = 1;            // of a fused output such as (query, key, value): each is split over TP
  WeightLayout layout = WeightLayout::in_out;
  bool has_bias = true;
};

// One of several outputs that a column-parallel linear makes of one input: a weight of its own.
struct ColumnOutput {
  std::string name;
  Index out;
  int copies = 1;  // neighbouring tensor ranks that compute the same: the output is split over TP / copies
};

namespace detail {

// The three products of a linear with the rank's part of its weight, whatever its layout.
template <class L>
struct LinearProducts {
  using stream = typename L::stream;
  using element = typename L::element;

  Index in;   // of this rank, as the next
  Index out;  //
  WeightLayout layout;
  const ParameterOf<L>* weight;  // the first one, where several adjoin

  // Transposed where the weight is not (in, out).
  ops::Transpose as_in_out() const { return transpose(layout == WeightLayout::out_in); }
  ops::Transpose as_out_in() const { return transpose(layout == WeightLayout::in_out); }

  void forward(const stream& s, Matrix<const element> x, Matrix<element> y) const {
    gemm(s, ops::Transpose::no, x, as_in_out(), weights(), y);
  }
  void forward(const stream& s, Matrix<const element> x, Vector<const element> bias,
               Matrix<element> y) const {
    gemm_bias(s, ops::Transpose::no, x, as_in_out(), weights(), bias, y);
  }
  // y = gelu(up); up = x · W + bias is for the backward pass.
  void forward_gelu(const stream& s, Matrix<const element> x, Vector<const element> bias, Matrix<element> up,
                    Matrix<element> y) const {
    gemm_bias_gelu(s, ops::Transpose::no, x, as_in_out(), weights(), bias, up, y);
  }

  void backward_input(const stream& s, Matrix<const element> dy, Matrix<element> dx) const {
    gemm(s, ops::Transpose::no, dy, as_out_in(), weights(), dx);
  }
  // The gradient of `up`, where x = gelu(up).
  void backward_input_gelu(const stream& s, Matrix<const element> dy, Matrix<const element> up,
                           Matrix<element> d_up) const {
    gemm_gelu_backward(s, ops::Transpose::no, dy, as_out_in(), weights(), up, d_up);
  }

  void backward_weight(const stream& s, Matrix<const element> x, Matrix<const element> dy,
                       Accumulate accumulate) const {
    const Matrix<float> gradient = matrix(weight->gradient);
    if (layout == WeightLayout::in_out) {
      gemm(s, ops::Transpose::yes, x, ops::Transpose::no, dy, gradient, accumulate);
    } else {
      gemm(s, ops::Transpose::yes, dy, ops::Transpose::no, x, gradient, accumulate);
    }
  }
  // And the gradient of the bias.
  void backward_weight(const stream& s, Matrix<const element> x, Matrix<const element> dy,
                       Vector<float> d_bias, Accumulate accumulate) const {
    const Matrix<float> gradient = matrix(weight->gradient);
    if (layout == WeightLayout::in_out) {
      gemm_bias_gradient(s, ops::Transpose::yes, x, ops::Transpose::no, dy, gradient, dy, d_bias, accumulate);
    } else {
      gemm_bias_gradient(s, ops::Transpose::yes, dy, ops::Transpose::no, x, gradient, dy, d_bias, accumulate);
    }
  }

 private:
  Matrix<const element> weights() const { return matrix(Vector<const element>(weight->weight)); }
  static ops::Transpose transpose(bool yes) { return yes ? ops::Transpose::yes : ops::Transpose::no; }
  template <class T>
  Matrix<T> matrix(Vector<T> first) const {
    if (layout == WeightLayout::in_out) return {first.data(), {in, out}};
    return {first.data(), {out, in}};
  }
};

inline std::vector<Index> weight_extents(const LinearShape& shape) {
  if (shape.layout == WeightLayout::in_out) return {shape.in, shape.out};
  return {shape.out, shape.in};
}

template <class T>
Vector<const T> weight_or_empty(const Parameter<T>* bias) {
  return bias == nullptr ? Vector<const T>() : bias->weight;
}

}  // namespace detail

template <class L>
class ColumnParallelLinear {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  ColumnParallelLinear(ParametersOf<L>& parameters, const std::string& name, const LinearShape& shape,
                       typename L::communicator& tensor_group)
      : tensor_group_(&tensor_group),
        products_{.in = shape.in,
                  .out = local_outputs(name, shape),
                  .layout = shape.layout,
                  .weight = &parameters.add(weight(name, shape))} {
    if (!shape.has_bias) return;
    bias_ = &parameters.add(
        {.name = name + ".bias",
         .shape = {shape.out},
         .partition = {.outer = shape.parts, .extent = shape.out / shape.parts, .parts = L::tensor_ranks}});
  }

  // Of several outputs, whose rows lie side by side: (rows, Σ out / TP). Their weights, each (out, in) and
  // split for itself, are one matrix in memory, so they take one product, and their input's gradient one
  // all-reduce. Without biases.
  ColumnParallelLinear(ParametersOf<L>& parameters, const std::vector<ColumnOutput>& outputs, Index in,
                       typename L::communicator& tensor_group)
      : tensor_group_(&tensor_group),
        products_{.in = in, .out = 0, .layout = WeightLayout::out_in, .weight = nullptr} {
    for (const ColumnOutput& output : outputs) {
      const LinearShape shape{.in = in, .out = output.out, .layout = WeightLayout::out_in, .has_bias = false};
      ParameterSpec spec = weight(output.name, shape, output.copies);
      spec.adjoins = products_.weight != nullptr;
      const ParameterOf<L>& added = parameters.add(spec);
      if (products_.weight == nullptr) products_.weight = &added;
      products_.out += local_outputs(output.name, shape, output.copies);
    }
  }

  Index out() const { return products_.out; }  // of this rank

  void forward(const stream& s, Matrix<const element> x,  // (rows, in)
               Matrix<element> y) const {                 // (rows, out / TP)
    if (bias_ == nullptr) return product(s, x, y);
    products_.forward(s, x, bias(), y);
  }

  // y = gelu(up), up = x · W + b: the backward pass needs it. With a bias.
  void forward_gelu(const stream& s, Matrix<const element> x, Matrix<element> up, Matrix<element> y) const {
    products_.forward_gelu(s, x, bias(), up, y);
  }

  // Without the bias, for callers that add it where it meets the next operation.
  void product(const stream& s, Matrix<const element> x, Matrix<element> y) const {
    products_.forward(s, x, y);
  }
  Vector<const element> bias() const { return detail::weight_or_empty(bias_); }

  void backward_input(const stream& s, Matrix<const element> dy,  // (rows, out / TP)
                      Matrix<element> dx) const {                 // (rows, in)
    products_.backward_input(s, dy, dx);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(dx)).wait(s);
  }

  void backward_weight(const stream& s, Matrix<const element> x, Matrix<const element> dy,
                       Accumulate accumulate) const {
    if (bias_ == nullptr) return products_.backward_weight(s, x, dy, accumulate);
    products_.backward_weight(s, x, dy, bias_->gradient, accumulate);
  }

 private:
  static Index local_outputs(const std::string& name, const LinearShape& shape, int copies = 1) {
    require(shape.out % (Index{shape.parts} * (L::tensor_ranks / copies)) == 0,
            name + ": " + std::to_string(shape.out) +
                " outputs cannot be split over TP=" + std::to_string(L::tensor_ranks),
            "the outputs of a column-parallel linear must be a multiple of TP");
    return shape.out / (L::tensor_ranks / copies);
  }

  static ParameterSpec weight(const std::string& name, const LinearShape& shape, int copies = 1) {
    const bool in_out = shape.layout == WeightLayout::in_out;
    return {.name = name + ".weight",
            .shape = detail::weight_extents(shape),
            .partition = {.outer = (in_out ? shape.in : 1) * shape.parts,
                          .extent = shape.out / shape.parts,
                          .inner = in_out ? 1 : shape.in,
                          .parts = L::tensor_ranks / copies,
                          .copies = copies},
            .initial = Initial::normal,
            .deviation = shape.deviation,
            .decays = true};
  }

  typename L::communicator* tensor_group_;
  detail::LinearProducts<L> products_;
  const ParameterOf<L>* bias_ = nullptr;
};

template <class L>
class RowParallelLinear {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  RowParallelLinear(ParametersOf<L>& parameters, const std::string& name, const LinearShape& shape,
                    typename L::communicator& tensor_group)
      : tensor_group_(&tensor_group),
        products_{.in = local_inputs(name, shape),
                  .out = shape.out,
                  .layout = shape.layout,
                  .weight = &parameters.add(weight(name, shape))} {
    if (!shape.has_bias) return;
    bias_ =
        &parameters.add({.name = name + ".bias", .shape = {shape.out}, .partition = {.extent = shape.out}});
  }

  Index in() const { return products_.in; }  // of this rank

  void forward(const stream& s, Matrix<const element> x,  // (rows, in / TP)
               Matrix<element> y) const {                 // (rows, out)
    product(s, x, y);
    if (bias_ != nullptr) add_bias(s, bias(), y);
  }

  // Without the bias, which is added once, after the ranks' partial sums.
  void product(const stream& s, Matrix<const element> x, Matrix<element> y) const {
    products_.forward(s, x, y);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(y)).wait(s);
  }
  Vector<const element> bias() const { return detail::weight_or_empty(bias_); }

  void backward_input(const stream& s, Matrix<const element> dy,  // (rows, out)
                      Matrix<element> dx) const {                 // (rows, in / TP)
    products_.backward_input(s, dy, dx);
  }

  // The gradient of `up`, where x = gelu(up).
  void backward_input_gelu(const stream& s, Matrix<const element> dy, Matrix<const element> up,
                           Matrix<element> d_up) const {
    products_.backward_input_gelu(s, dy, up, d_up);
  }

  void backward_weight(const stream& s, Matrix<const element> x, Matrix<const element> dy,
                       Accumulate accumulate) const {
    if (bias_ == nullptr) return products_.backward_weight(s, x, dy, accumulate);
    products_.backward_weight(s, x, dy, bias_->gradient, accumulate);
  }

 private:
  static Index local_inputs(const std::string& name, const LinearShape& shape) {
    require(shape.in % L::tensor_ranks == 0,
            name + ": " + std::to_string(shape.in) +
                " inputs cannot be split over TP=" + std::to_string(L::tensor_ranks),
            "the inputs of a row-parallel linear must be a multiple of TP");
    return shape.in / L::tensor_ranks;
  }

  static ParameterSpec weight(const std::string& name, const LinearShape& shape) {
    const bool in_out = shape.layout == WeightLayout::in_out;
    return {.name = name + ".weight",
            .shape = detail::weight_extents(shape),
            .partition = {.outer = in_out ? 1 : shape.out,
                          .extent = shape.in,
                          .inner = in_out ? shape.out : 1,
                          .parts = L::tensor_ranks},
            .initial = Initial::normal,
            .deviation = shape.deviation,
            .decays = true};
  }

  typename L::communicator* tensor_group_;
  detail::LinearProducts<L> products_;
  const ParameterOf<L>* bias_ = nullptr;
};

}  // namespace trilith::inline v0
