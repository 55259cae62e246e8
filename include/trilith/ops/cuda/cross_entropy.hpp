// Softmax cross-entropy over a vocabulary that may be split over tensor ranks, on streams that run kernels;
// see ops/host/cross_entropy.hpp. Statistics are float32.
#pragma once

#include <cstdint>
#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/cross_entropy.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/softmax_statistics.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// Of each row of this rank's logits: the maximum, the sum of e^(logit − maximum), and the logit of the target
// where this rank holds it, else 0. Without columns these are −∞, 0 and 0.
template <kernel_stream S, class E>
void softmax_statistics(const S& stream, Matrix<E> logits,  // (batch · sequence, vocabulary / TP)
                        Index columns, Vector<const std::int32_t> targets, Index first_column,
                        Vector<float> max, Vector<float> sum, Vector<float> target_logit) {
  using T = std::remove_const_t<E>;
  constexpr int n = kernels::widest<T>;
  if (logits.extent(0) == 0) return;
  const auto launch = [&]<class Kernel>(const Kernel& kernel) {
    stream.launch(kernel, {.x = static_cast<int>(logits.extent(0))},
                  {detail::rows_of(logits), columns, detail::span_of(targets), first_column,
                   detail::span_of(max), detail::span_of(sum), detail::span_of(target_logit)});
  };
  if (detail::rows_aligned<n>(logits)) {
    launch(kernels::SoftmaxStatistics<T, n>{});
  } else {
    launch(kernels::SoftmaxStatistics<T, 1>{});
  }
}

// Makes this rank's sums relative to the maximum over all ranks: sum *= e^(local_max − global_max).
template <kernel_stream S>
void rescale_sums(const S& stream, Vector<const float> local_max, Vector<const float> global_max,
                  Vector<float> sum) {
  constexpr int n = kernels::widest<float>;
  detail::launch_each<kernels::RescaleSums, n>(
      stream, 1, sum.size(), detail::rows_aligned<n>(local_max, global_max, sum),
      {detail::span_of(local_max), detail::span_of(global_max), detail::rows_of(sum)});
}

// loss(0) = the loss summed over the rows that have a target: log(sum) + max − target_logit, in float64.
template <kernel_stream S>
void cross_entropy_loss(const S& stream, Vector<const std::int32_t> targets, Vector<const float> max,
                        Vector<const float> sum, Vector<const float> target_logit, Vector<double> loss) {
  stream.launch(kernels::CrossEntropyLoss{}, {},
                {detail::span_of(targets), detail::span_of(max), detail::span_of(sum),
                 detail::span_of(target_logit), detail::span_of(loss)});
}

// logits become their gradient, in place: (softmax − [column is the target]) · scale. Zeros in rows without a
// target and in padding.
template <kernel_stream S, kernels::element T>
void cross_entropy_backward(const S& stream, Matrix<T> logits,  // (batch · sequence, vocabulary / TP)
                            Index columns, Vector<const std::int32_t> targets, Index first_column,
                            Vector<const float> max, Vector<const float> sum, float scale) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::CrossEntropyBackward<T>, n>(
      stream, logits.extent(0), logits.extent(1), detail::rows_aligned<n>(logits),
      {detail::rows_of(logits), columns, detail::span_of(targets), first_column, detail::span_of(max),
       detail::span_of(sum), scale});
}

}  // namespace trilith::inline v0::ops
