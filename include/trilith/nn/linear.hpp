// Tensor-parallel linears. A column-parallel linear splits its output, a row-parallel one its input; one
// after the other needs a single all-reduce in the forward pass (of the row-parallel output, which is a
// partial sum on each rank) and one in the backward pass (of the column-parallel input's gradient).
//
// Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model
// parallelism", 2019. Weights are (in, out), y = x · W + b. Outputs are overwritten; weight gradients are
// overwritten or added to, as the caller says. With TP = 1 there is no communication and none is compiled.
#pragma once

#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/gemm.hpp>
#include <trilith/ops/host.hpp>

namespace trilith::inline v0 {

struct LinearShape {
  Index in;
  Index out;
  float deviation = 0.02f;  // of the initial weights
  int parts = 1;            // of a fused output such as (query, key, value): each is split over TP
};

template <class L>
class ColumnParallelLinear {
 public:
  using stream = typename L::stream;

  ColumnParallelLinear(Parameters<typename L::device_type>& parameters, const std::string& name,
                       const LinearShape& shape, typename L::communicator& tensor_group)
      : in_(shape.in),
        out_(shape.out / L::tensor_ranks),
        tensor_group_(&tensor_group),
        weight_(&parameters.add({.name = name + ".weight",
                                 .shape = {shape.in, shape.out},
                                 .partition = {.outer = shape.in * shape.parts,
                                               .extent = shape.out / shape.parts,
                                               .parts = L::tensor_ranks},
                                 .initial = Initial::normal,
                                 .deviation = shape.deviation,
                                 .decays = true})),
        bias_(&parameters.add(
            {.name = name + ".bias",
             .shape = {shape.out},
             .partition = {
                 .outer = shape.parts, .extent = shape.out / shape.parts, .parts = L::tensor_ranks}})) {
    require(shape.out % (Index{shape.parts} * L::tensor_ranks) == 0,
            name + ": " + std::to_string(shape.out) +
                " outputs cannot be split over TP=" + std::to_string(L::tensor_ranks),
            "the outputs of a column-parallel linear must be a multiple of TP");
  }

  void forward(const stream& s, Matrix<const float> x,  // (rows, in)
               Matrix<float> y) const {                 // (rows, out / TP)
    product(s, x, y);
    add_bias(s, bias(), y);
  }

  // Without the bias, for callers that add it where it meets the next operation.
  void product(const stream& s, Matrix<const float> x, Matrix<float> y) const {
    gemm(s, ops::Transpose::no, x, ops::Transpose::no, weight_->matrix(in_, out_), y);
  }
  Vector<const float> bias() const { return bias_->value; }

  void backward_input(const stream& s, Matrix<const float> dy,  // (rows, out / TP)
                      Matrix<float> dx) const {                 // (rows, in)
    gemm(s, ops::Transpose::no, dy, ops::Transpose::yes, weight_->matrix(in_, out_), dx);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(dx)).wait(s);
  }

  void backward_weight(const stream& s, Matrix<const float> x, Matrix<const float> dy,
                       Accumulate accumulate) const {
    gemm(s, ops::Transpose::yes, x, ops::Transpose::no, dy, weight_->gradient_matrix(in_, out_), accumulate);
    bias_gradient(s, dy, bias_->gradient, accumulate);
  }

  Index first_offset() const { return weight_->offset; }

 private:
  Index in_;
  Index out_;  // of this rank
  typename L::communicator* tensor_group_;
  Parameter* weight_;
  Parameter* bias_;
};

template <class L>
class RowParallelLinear {
 public:
  using stream = typename L::stream;

  RowParallelLinear(Parameters<typename L::device_type>& parameters, const std::string& name,
                    const LinearShape& shape, typename L::communicator& tensor_group)
      : in_(shape.in / L::tensor_ranks),
        out_(shape.out),
        tensor_group_(&tensor_group),
        weight_(
            &parameters.add({.name = name + ".weight",
                             .shape = {shape.in, shape.out},
                             .partition = {.extent = shape.in, .inner = shape.out, .parts = L::tensor_ranks},
                             .initial = Initial::normal,
                             .deviation = shape.deviation,
                             .decays = true})),
        bias_(&parameters.add(
            {.name = name + ".bias", .shape = {shape.out}, .partition = {.extent = shape.out}})) {
    require(shape.in % L::tensor_ranks == 0,
            name + ": " + std::to_string(shape.in) +
                " inputs cannot be split over TP=" + std::to_string(L::tensor_ranks),
            "the inputs of a row-parallel linear must be a multiple of TP");
  }

  void forward(const stream& s, Matrix<const float> x,  // (rows, in / TP)
               Matrix<float> y) const {                 // (rows, out)
    product(s, x, y);
    add_bias(s, bias(), y);
  }

  // Without the bias, which is added once, after the ranks' partial sums.
  void product(const stream& s, Matrix<const float> x, Matrix<float> y) const {
    gemm(s, ops::Transpose::no, x, ops::Transpose::no, weight_->matrix(in_, out_), y);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(y)).wait(s);
  }
  Vector<const float> bias() const { return bias_->value; }

  void backward_input(const stream& s, Matrix<const float> dy,  // (rows, out)
                      Matrix<float> dx) const {                 // (rows, in / TP)
    gemm(s, ops::Transpose::no, dy, ops::Transpose::yes, weight_->matrix(in_, out_), dx);
  }

  void backward_weight(const stream& s, Matrix<const float> x, Matrix<const float> dy,
                       Accumulate accumulate) const {
    gemm(s, ops::Transpose::yes, x, ops::Transpose::no, dy, weight_->gradient_matrix(in_, out_), accumulate);
    bias_gradient(s, dy, bias_->gradient, accumulate);
  }

 private:
  Index in_;  // of this rank
  Index out_;
  typename L::communicator* tensor_group_;
  Parameter* weight_;
  Parameter* bias_;
};

}  // namespace trilith::inline v0
