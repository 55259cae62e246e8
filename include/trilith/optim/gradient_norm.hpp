// The norm of all gradients of a model that is split over tensor and pipeline ranks, each parameter counted
// once: tied copies not at all, elements that several tensor ranks hold on the first of them, split tensors
// by their parts.
//
// A float64 sum of squares per tensor, then added in the model's order: the same bits for every pipeline
// and schedule.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/nn/parameter.hpp>

namespace trilith::inline v0 {

template <device D, class Element = float>
class GradientNorm {
 public:
  // `tensors`: all parameters of the whole model, in its order.
  GradientNorm(const Parameters<D, Element>& parameters, const std::vector<NamedShape>& tensors,
               typename D::memory& memory)
      : host_squares_(tensors.size()) {
    squares_memory_ = memory.allocate(tensors.size() * sizeof(double));
    squares_ = {reinterpret_cast<double*>(squares_memory_.data()), {static_cast<Index>(tensors.size())}};
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < tensors.size(); ++i) place[tensors[i].name] = i;
    for (const Parameter<Element>& p : parameters) {
      const bool counts = !p.spec.is_copy && p.spec.partition.first_holder(parameters.tensor_rank());
      if (counts) counted_.push_back({p.gradient, squares_.slice(0, place.at(p.spec.name), 1)});
    }
  }

  // Of the reduced gradients; the same on every rank of the two groups.
  template <communicator C>
  double compute(const typename D::stream& s, C& tensor_group, C& pipeline_group) {
    std::fill(host_squares_.begin(), host_squares_.end(), 0.0);
    upload(s, host_squares_.data(), squares_);
    for (const Counted& c : counted_) sum_of_squares(s, c.gradient, c.square);
    if (tensor_group.size() > 1) tensor_group.all_reduce(s, squares_).wait(s);
    if (pipeline_group.size() > 1) pipeline_group.all_reduce(s, squares_).wait(s);
    download(s, Vector<const double>(squares_), host_squares_.data());
    double sum = 0;
    for (const double square : host_squares_) sum += square;
    return std::sqrt(sum);
  }

 private:
  struct Counted {
    Vector<const float> gradient;
    Vector<double> square;  // its place among all
  };

  std::vector<Counted> counted_;
  typename D::allocation squares_memory_;
  Vector<double> squares_;  // one for each tensor of the model
  std::vector<double> host_squares_;
};

}  // namespace trilith::inline v0
