// AdamW (Loshchilov, Hutter, 2019) over a rank's contiguous parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/adamw.hpp>

namespace trilith::inline v0 {

using ops::AdamW;

template <device D, class Element = float>
class AdamWOptimizer {
 public:
  AdamWOptimizer(const typename D::stream& s, const Parameters<D, Element>& parameters,
                 typename D::memory& memory)
      : parameters_(&parameters) {
    const std::size_t bytes = static_cast<std::size_t>(parameters.size()) * sizeof(float);
    first_ = memory.allocate(bytes);
    second_ = memory.allocate(bytes);
    fill(s, moment(first_), 0.0f);
    fill(s, moment(second_), 0.0f);

    // Neighbours with the same decay are updated as one.
    for (const Parameter<Element>& p : parameters) {
      if (segments_.empty() || segments_.back().decays != p.spec.decays) {
        segments_.push_back({.first = p.offset, .last = p.offset, .decays = p.spec.decays});
      }
      segments_.back().last = p.offset + p.spec.partition.local_size();
    }
  }

  // Step `step` (from 1) with gradients multiplied by `gradient_scale`. Weights that are copies are
  // rewritten.
  void update(const typename D::stream& s, AdamW settings, std::int64_t step, float gradient_scale) {
    const float decay = settings.weight_decay;
    for (const Segment& segment : segments_) {
      settings.weight_decay = segment.decays ? decay : 0.0f;
      const auto part = [&](auto all) { return all.slice(0, segment.first, segment.last - segment.first); };
      const Vector<float> values = part(parameters_->values());
      const Vector<const float> gradients = part(parameters_->gradients());
      const Vector<float> first = part(moment(first_));
      const Vector<float> second = part(moment(second_));
      if constexpr (Parameters<D, Element>::has_copies) {
        adamw(s, settings, step, gradient_scale, values, gradients, first, second,
              part(parameters_->weights()));
      } else {
        adamw(s, settings, step, gradient_scale, values, gradients, first, second);
      }
    }
  }

 private:
  struct Segment {
    Index first;
    Index last;
    bool decays;
  };

  Vector<float> moment(const typename D::allocation& memory) const {
    return {reinterpret_cast<float*>(memory.data()), {parameters_->size()}};
  }

  const Parameters<D, Element>* parameters_;
  typename D::allocation first_;
  typename D::allocation second_;
  std::vector<Segment> segments_;
};

}  // namespace trilith::inline v0
