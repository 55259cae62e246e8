// The norm of all gradients of a model that is split over tensor and pipeline ranks, each parameter counted
// once: tied copies not at all, tensors that are whole on every tensor rank on the first one, split ones by
// their parts.
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
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/host.hpp>

namespace trilith::inline v0 {

template <device D>
class GradientNorm {
 public:
  // `tensors`: all parameters of the whole model, in its order.
  GradientNorm(const Parameters<D>& parameters, const std::vector<NamedShape>& tensors)
      : squares_(tensors.size()) {
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < tensors.size(); ++i) place[tensors[i].name] = i;
    for (const Parameter& p : parameters) {
      const bool counts = !p.spec.is_copy && (p.spec.partition.parts > 1 || parameters.tensor_rank() == 0);
      if (counts) counted_.push_back({place.at(p.spec.name), p.gradient});
    }
  }

  // Of the reduced gradients; the same on every rank of the two groups.
  template <communicator C>
  double compute(const typename D::stream& s, C& tensor_group, C& pipeline_group) {
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (const Counted& c : counted_) squares_[c.place] = sum_of_squares(s, c.gradient);
    const Vector<double> all{squares_.data(), {static_cast<Index>(squares_.size())}};
    if (tensor_group.size() > 1) tensor_group.all_reduce(s, all).wait(s);
    if (pipeline_group.size() > 1) pipeline_group.all_reduce(s, all).wait(s);
    double sum = 0;
    for (const double square : squares_) sum += square;
    return std::sqrt(sum);
  }

 private:
  struct Counted {
    std::size_t place;
    Vector<const float> gradient;
  };

  std::vector<Counted> counted_;
  std::vector<double> squares_;
};

}  // namespace trilith::inline v0
