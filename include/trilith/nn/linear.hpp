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
#include <trilith/ops/gemm.hpp>
#include <trilith/ops/host.hpp>

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
};

namespace detail {

// The three products of a linear with the rank's part of its weight, whatever its layout.
template <class Stream>
struct LinearProducts {
  Index in;   // of this rank, as the next
  Index out;  //
  WeightLayout layout;
  const Parameter* weight;  // the first one, where several adjoin

  // Transposed where the weight is not (in, out).
  ops::Transpose as_in_out() const { return transpose(layout == WeightLayout::out_in); }
  ops::Transpose as_out_in() const { return transpose(layout == WeightLayout::in_out); }

  void forward(const Stream& s, Matrix<const float> x, Matrix<float> y) const {
    gemm(s, ops::Transpose::no, x, as_in_out(), matrix(weight->value), y);
  }

  void backward_input(const Stream& s, Matrix<const float> dy, Matrix<float> dx) const {
    gemm(s, ops::Transpose::no, dy, as_out_in(), matrix(weight->value), dx);
  }

  void backward_weight(const Stream& s, Matrix<const float> x, Matrix<const float> dy,
                       Accumulate accumulate) const {
    const Matrix<float> gradient = matrix(weight->gradient);
    if (layout == WeightLayout::in_out) {
      gemm(s, ops::Transpose::yes, x, ops::Transpose::no, dy, gradient, accumulate);
    } else {
      gemm(s, ops::Transpose::yes, dy, ops::Transpose::no, x, gradient, accumulate);
    }
  }

 private:
  static ops::Transpose transpose(bool yes) { return yes ? ops::Transpose::yes : ops::Transpose::no; }
  Matrix<float> matrix(Vector<float> first) const {
    if (layout == WeightLayout::in_out) return {first.data(), {in, out}};
    return {first.data(), {out, in}};
  }
};

inline std::vector<Index> weight_extents(const LinearShape& shape) {
  if (shape.layout == WeightLayout::in_out) return {shape.in, shape.out};
  return {shape.out, shape.in};
}

inline Vector<const float> value_or_empty(const Parameter* bias) {
  return bias == nullptr ? Vector<const float>() : bias->value;
}

}  // namespace detail

template <class L>
class ColumnParallelLinear {
 public:
  using stream = typename L::stream;

  ColumnParallelLinear(Parameters<typename L::device_type>& parameters, const std::string& name,
                       const LinearShape& shape, typename L::communicator& tensor_group)
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
  ColumnParallelLinear(Parameters<typename L::device_type>& parameters,
                       const std::vector<ColumnOutput>& outputs, Index in,
                       typename L::communicator& tensor_group)
      : tensor_group_(&tensor_group),
        products_{.in = in, .out = 0, .layout = WeightLayout::out_in, .weight = nullptr} {
    for (const ColumnOutput& output : outputs) {
      const LinearShape shape{.in = in, .out = output.out, .layout = WeightLayout::out_in, .has_bias = false};
      ParameterSpec spec = weight(output.name, shape);
      spec.adjoins = products_.weight != nullptr;
      const Parameter& added = parameters.add(spec);
      if (products_.weight == nullptr) products_.weight = &added;
      products_.out += local_outputs(output.name, shape);
    }
  }

  Index out() const { return products_.out; }  // of this rank

  void forward(const stream& s, Matrix<const float> x,  // (rows, in)
               Matrix<float> y) const {                 // (rows, out / TP)
    product(s, x, y);
    if (bias_ != nullptr) add_bias(s, bias(), y);
  }

  // Without the bias, for callers that add it where it meets the next operation.
  void product(const stream& s, Matrix<const float> x, Matrix<float> y) const { products_.forward(s, x, y); }
  Vector<const float> bias() const { return detail::value_or_empty(bias_); }

  void backward_input(const stream& s, Matrix<const float> dy,  // (rows, out / TP)
                      Matrix<float> dx) const {                 // (rows, in)
    products_.backward_input(s, dy, dx);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(dx)).wait(s);
  }

  void backward_weight(const stream& s, Matrix<const float> x, Matrix<const float> dy,
                       Accumulate accumulate) const {
    products_.backward_weight(s, x, dy, accumulate);
    if (bias_ != nullptr) bias_gradient(s, dy, bias_->gradient, accumulate);
  }

 private:
  static Index local_outputs(const std::string& name, const LinearShape& shape) {
    require(shape.out % (Index{shape.parts} * L::tensor_ranks) == 0,
            name + ": " + std::to_string(shape.out) +
                " outputs cannot be split over TP=" + std::to_string(L::tensor_ranks),
            "the outputs of a column-parallel linear must be a multiple of TP");
    return shape.out / L::tensor_ranks;
  }

  static ParameterSpec weight(const std::string& name, const LinearShape& shape) {
    const bool in_out = shape.layout == WeightLayout::in_out;
    return {.name = name + ".weight",
            .shape = detail::weight_extents(shape),
            .partition = {.outer = (in_out ? shape.in : 1) * shape.parts,
                          .extent = shape.out / shape.parts,
                          .inner = in_out ? 1 : shape.in,
                          .parts = L::tensor_ranks},
            .initial = Initial::normal,
            .deviation = shape.deviation,
            .decays = true};
  }

  typename L::communicator* tensor_group_;
  detail::LinearProducts<stream> products_;
  const Parameter* bias_ = nullptr;
};

template <class L>
class RowParallelLinear {
 public:
  using stream = typename L::stream;

  RowParallelLinear(Parameters<typename L::device_type>& parameters, const std::string& name,
                    const LinearShape& shape, typename L::communicator& tensor_group)
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

  void forward(const stream& s, Matrix<const float> x,  // (rows, in / TP)
               Matrix<float> y) const {                 // (rows, out)
    product(s, x, y);
    if (bias_ != nullptr) add_bias(s, bias(), y);
  }

  // Without the bias, which is added once, after the ranks' partial sums.
  void product(const stream& s, Matrix<const float> x, Matrix<float> y) const {
    products_.forward(s, x, y);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(y)).wait(s);
  }
  Vector<const float> bias() const { return detail::value_or_empty(bias_); }

  void backward_input(const stream& s, Matrix<const float> dy,  // (rows, out)
                      Matrix<float> dx) const {                 // (rows, in / TP)
    products_.backward_input(s, dy, dx);
  }

  void backward_weight(const stream& s, Matrix<const float> x, Matrix<const float> dy,
                       Accumulate accumulate) const {
    products_.backward_weight(s, x, dy, accumulate);
    if (bias_ != nullptr) bias_gradient(s, dy, bias_->gradient, accumulate);
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
  detail::LinearProducts<stream> products_;
  const Parameter* bias_ = nullptr;
};

}  // namespace trilith::inline v0
