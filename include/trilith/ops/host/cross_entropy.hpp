// Softmax cross-entropy over a vocabulary that may be split over tensor ranks: a rank holds the logits of
// the tokens [first_column, first_column + columns), and what its matrix has beyond `columns` is padding,
// which counts for nothing (and may be all it has).
//
// Forward: softmax_statistics; all-reduce of a copy of `max` (maximum); rescale_sums; all-reduce of `sum` and
// `target_logit` (sum); cross_entropy_loss. Backward: cross_entropy_backward with the reduced statistics.
// With one rank the three steps between fall away.
//
// Targets are tokens; a negative one marks a row that has none, and neither loss nor gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

namespace detail {

struct SoftmaxRow {
  float max;
  float sum;  // Σ e^(logit − max)
};

// Block by block: a block's maximum, then its exponentials from the first-level cache, so the row is read
// from memory once. A NaN among the logits makes the sum NaN.
inline SoftmaxRow softmax_row(const float* logits, Index columns) {
  using simd::Floats;
  constexpr Index block = 128 * simd::lanes;
  constexpr float infinity = std::numeric_limits<float>::infinity();

  float max = -infinity;
  Floats sum{};
  for (Index first = 0; first < columns; first += block) {
    const float* const x = logits + first;
    const Index width = std::min(block, columns - first);
    const Floats maxima = simd::fold_vectors(
        width, simd::broadcast(-infinity), [](Floats a, Floats b) { return simd::max(a, b); },
        [&](Index i, auto w) { return simd::load_first(x + i, w, -infinity); });
    const float block_max = simd::max(maxima);
    if (block_max > max) {
      sum *= simd::exp(simd::broadcast(max - block_max));
      max = block_max;
    }
    const float base = max == -infinity ? 0.0f : max;  // −∞ − (−∞) would be NaN, and e^−∞ is 0
    sum += simd::sum_vectors(
        width, [&](Index i, auto w) { return simd::exp(simd::load_first(x + i, w, -infinity) - base); });
  }
  return {max, simd::sum(sum)};
}

}  // namespace detail

// Of each row of this rank's logits: the maximum, the sum of e^(logit − maximum), and the logit of the target
// where this rank holds it, else 0. Without columns these are −∞, 0 and 0.
inline void softmax_statistics(const Host::Stream& stream,
                               Matrix<const float> logits,  // (batch · sequence, vocabulary / TP)
                               Index columns, Vector<const std::int32_t> targets, Index first_column,
                               Vector<float> max, Vector<float> sum, Vector<float> target_logit) {
  parallel::rows(stream, logits.extent(0), columns, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const detail::SoftmaxRow statistics = detail::softmax_row(&logits(row, 0), columns);
      max(row) = statistics.max;
      sum(row) = statistics.sum;
      const Index target = targets(row) - first_column;
      const bool held = target >= 0 && target < columns;
      target_logit(row) = held ? logits(row, target) : 0.0f;
    }
  });
}

// Makes this rank's sums relative to the maximum over all ranks: sum *= e^(local_max − global_max).
inline void rescale_sums(const Host::Stream& stream, Vector<const float> local_max,
                         Vector<const float> global_max, Vector<float> sum) {
  parallel::elements(stream, sum.size(), [&](Index first, Index last) {
    simd::for_each_vector(last - first, [&](Index i, auto w) {
      const simd::Floats factor =
          simd::exp(simd::load_first(&local_max(first + i), w) - simd::load_first(&global_max(first + i), w));
      float* const to = &sum(first + i);
      simd::store_first(to, simd::load_first(to, w) * factor, w);
    });
  });
}

// loss(0) = the loss summed over the rows that have a target: log(sum) + max − target_logit, in float64 and
// ascending order. A mean is the caller's to take, who knows the count over all ranks.
inline void cross_entropy_loss(const Host::Stream&, Vector<const std::int32_t> targets,
                               Vector<const float> max, Vector<const float> sum,
                               Vector<const float> target_logit, Vector<double> loss) {
  loss(0) = 0;
  for (Index row = 0; row < targets.size(); ++row) {
    if (targets(row) < 0) continue;
    loss(0) += std::log(static_cast<double>(sum(row))) +
               (static_cast<double>(max(row)) - static_cast<double>(target_logit(row)));
  }
}

// logits become their gradient, in place: (softmax − [column is the target]) · scale. Zeros in rows without a
// target and in padding.
inline void cross_entropy_backward(const Host::Stream& stream,
                                   Matrix<float> logits,  // (batch · sequence, vocabulary / TP)
                                   Index columns, Vector<const std::int32_t> targets, Index first_column,
                                   Vector<const float> max, Vector<const float> sum, float scale) {
  parallel::rows(stream, logits.extent(0), logits.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      float* const x = &logits(row, 0);
      const Index used = targets(row) < 0 ? 0 : columns;
      std::fill_n(x + used, logits.extent(1) - used, 0.0f);
      if (used == 0) continue;
      const float factor = scale / sum(row);
      const float row_max = max(row);
      simd::for_each_vector(used, [&](Index i, auto w) {
        simd::store_first(x + i, simd::exp(simd::load_first(x + i, w) - row_max) * factor, w);
      });
      const Index target = targets(row) - first_column;
      if (target >= 0 && target < columns) x[target] -= scale;
    }
  });
}

}  // namespace trilith::inline v0::ops
