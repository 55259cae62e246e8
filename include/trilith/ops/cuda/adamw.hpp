// One step of AdamW on streams that run kernels; see ops/host/adamw.hpp.
#pragma once

#include <cstdint>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/adamw.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/ops/adamw.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// `weights`: of float, none.
template <kernel_stream S, kernels::element T>
void launch_adamw(const S& stream, const AdamW& settings, std::int64_t step, float gradient_scale,
                  Vector<float> parameters, Vector<const float> gradients, Vector<float> first_moment,
                  Vector<float> second_moment, Vector<T> weights) {
  constexpr int n = kernels::widest<float, T>;
  launch_each<kernels::AdamW<T>, n>(
      stream, 1, parameters.size(),
      rows_aligned<n>(parameters, gradients, first_moment, second_moment, weights),
      {settings.at_step(step, gradient_scale), span_of(parameters), span_of(gradients), span_of(first_moment),
       span_of(second_moment), span_of(weights)});
}

}  // namespace detail

// Updates float32 parameters and moments, as ops/host/adamw.hpp says.
template <kernel_stream S>
void adamw(const S& stream, const AdamW& settings, std::int64_t step, float gradient_scale,
           Vector<float> parameters, Vector<const float> gradients, Vector<float> first_moment,
           Vector<float> second_moment) {
  detail::launch_adamw(stream, settings, step, gradient_scale, parameters, gradients, first_moment,
                       second_moment, Vector<float>());
}

// The same, and weights = the parameters, rounded: what layers compute with in 16 bits.
template <kernel_stream S, half T>
void adamw(const S& stream, const AdamW& settings, std::int64_t step, float gradient_scale,
           Vector<float> parameters, Vector<const float> gradients, Vector<float> first_moment,
           Vector<float> second_moment, Vector<T> weights) {
  detail::launch_adamw(stream, settings, step, gradient_scale, parameters, gradients, first_moment,
                       second_moment, weights);
}

}  // namespace trilith::inline v0::ops
