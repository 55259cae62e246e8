// Of each row of a rank's logits: the maximum, the sum of e^(logit − maximum), and the target's logit. A
// block takes a row and reads it once.
#pragma once

#include <cstdint>
#include <limits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/block_reduce.hpp>
#include <trilith/kernels/exponential.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// Of some logits. A NaN among them makes the sum NaN.
struct SoftmaxSum {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;  // Σ e^(logit − max)

  // Makes the sum relative to a maximum that is not below its own. Of −∞ alone it is 0, or NaN.
  template <simt::lane Lane>
  TRILITH_DEVICE void rescale(Lane& lane, float to) {
    sum *= max == to ? 1.0f : exponential(lane, max - to);
    max = to;
  }

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void add(Lane& lane, const Floats<N>& logits) {
    float most = max;
    TRILITH_UNROLL
    for (int i = 0; i < N; ++i) most = Maximum{}(logits[i], most);
    if (most > max) rescale(lane, most);
    // −∞ − (−∞) would be NaN, and e^−∞ is 0.
    const float base = max == -std::numeric_limits<float>::infinity() ? 0.0f : max;
    TRILITH_UNROLL
    for (int i = 0; i < N; ++i) sum += exponential(lane, logits[i] - base);
  }
};

template <element T, int N>
struct SoftmaxStatistics {
  static constexpr const char* name = "softmax_statistics";
  static constexpr int threads = 256;
  using Reduction = BlockReduction<float, threads / simt::warp_size>;
  static constexpr int shared_bytes = Reduction::shared_bytes;
  static constexpr int blocks_per_multiprocessor = 8;
  struct Params {
    StridedRows<const T> logits;
    Index columns;  // any number
    simt::Global<const std::int32_t> targets;
    Index first_column;
    simt::Global<float> max;
    simt::Global<float> sum;
    simt::Global<float> target_logit;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Index row = lane.block().x;
    SoftmaxSum mine;
    const Index packed = p.columns / N * N;
    for (Index column = lane.thread() * N; column < packed; column += threads * N) {
      mine.add(lane, load_floats<N>(lane, p.logits, row, column));
    }
    if (packed + lane.thread() < p.columns) {
      mine.add(lane, load_floats<1>(lane, p.logits, row, packed + lane.thread()));
    }

    Reduction reduce(lane);
    mine.rescale(lane, reduce(lane, mine.max, Maximum{}));
    const float sum = reduce(lane, mine.sum, Sum{});
    if (lane.thread() != 0) return;
    const Index target = lane.load(p.targets, row) - p.first_column;
    const bool held = target >= 0 && target < p.columns;
    lane.store(p.max, row, mine.max);
    lane.store(p.sum, row, sum);
    lane.store(p.target_logit, row, held ? load_floats<1>(lane, p.logits, row, target)[0] : 0.0f);
  }
};

}  // namespace trilith::inline v0::kernels
