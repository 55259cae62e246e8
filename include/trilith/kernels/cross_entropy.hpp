// The passes of a vocabulary-parallel cross-entropy after the statistics of each row:
// ops/host/cross_entropy.hpp says how they go together.
#pragma once

#include <cmath>
#include <cstdint>

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

// sum *= e^(local_max − global_max), for EachPack.
struct RescaleSums {
  static constexpr const char* name = "rescale_sums";
  struct Params {
    simt::Global<const float> local_max;
    simt::Global<const float> global_max;
    StridedRows<float> sum;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> below =
        load_floats<N>(lane, p.local_max, column) - load_floats<N>(lane, p.global_max, column);
    const Floats<N> factor = map(below, [&lane](float x) { return exponential(lane, x); });
    store_floats(lane, p.sum, row, column, load_floats<N>(lane, p.sum, row, column) * factor);
  }
};

// loss(0) = Σ log(sum) + max − target_logit over the rows that have a target, in float64. One block.
struct CrossEntropyLoss {
  static constexpr const char* name = "cross_entropy_loss";
  static constexpr int threads = 512;
  using Reduction = BlockReduction<double, threads / simt::warp_size>;
  static constexpr int shared_bytes = Reduction::shared_bytes;
  struct Params {
    simt::Global<const std::int32_t> targets;
    simt::Global<const float> max;
    simt::Global<const float> sum;
    simt::Global<const float> target_logit;
    simt::Global<double> loss;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    Reduction reduce(lane);
    double loss = 0;
    for (Index row = lane.thread(); row < p.targets.size; row += threads) {
      if (lane.load(p.targets, row) < 0) continue;
      const double above = static_cast<double>(lane.load(p.max, row)) - lane.load(p.target_logit, row);
      loss += std::log(static_cast<double>(lane.load(p.sum, row))) + above;
    }
    loss = reduce(lane, loss, Sum{});
    if (lane.thread() == 0) lane.store(p.loss, 0, loss);
  }
};

// The logits become (softmax − [column is the target]) · scale, for EachPack; zeros in rows without a target
// and beyond `columns`.
template <element T>
struct CrossEntropyBackward {
  static constexpr const char* name = "cross_entropy_backward";
  struct Params {
    StridedRows<T> logits;
    Index columns;
    simt::Global<const std::int32_t> targets;
    Index first_column;
    simt::Global<const float> max;
    simt::Global<const float> sum;
    float scale;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const std::int32_t target = lane.load(p.targets, row);
    Floats<N> d = all_equal<N>(0.0f);
    if (target >= 0 && column < p.columns) {
      const float max = lane.load(p.max, row);
      const float factor = p.scale * lane.reciprocal(lane.load(p.sum, row));
      const Floats<N> logits = load_floats<N>(lane, p.logits, row, column);
      TRILITH_UNROLL
      for (int i = 0; i < N; ++i) {
        if (column + i >= p.columns) continue;
        d[i] = exponential(lane, logits[i] - max) * factor;
        if (column + i == target - p.first_column) d[i] -= p.scale;
      }
    }
    store_floats(lane, p.logits, row, column, d);
  }
};

}  // namespace trilith::inline v0::kernels
