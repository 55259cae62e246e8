// The gradients of attention's sinks.
#pragma once

#include <numbers>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// A sink's weight in a query's softmax is e^(sink − lse), and its value is 0: d_sinks = −Σ weight · delta,
// always in the same order. Grid: (heads).
struct AttentionSinksBackward {
  static constexpr const char* name = "attention_sinks_backward";
  static constexpr int threads = 256;
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int shared_bytes = warps * 4;

  struct Params {
    PerQuery<const float> lse;        // (batch, heads, queries)
    PerQuery<const float> delta;      // (batch, heads, queries)
    simt::Global<const float> sinks;  // (heads)
    simt::Global<float> d_sinks;      // (heads)
    int batch;
    int queries;
    bool accumulate;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const int head = lane.block().x;
    const float sink = lane.load(p.sinks, head);
    float sum = 0;
    for (int batch = 0; batch < p.batch; ++batch) {
      const simt::Global<const float> lse = p.lse.head(batch, head);
      const simt::Global<const float> delta = p.delta.head(batch, head);
      for (int query = lane.thread(); query < p.queries; query += threads) {
        const float log2 = (sink - lane.load(lse, query)) * std::numbers::log2e_v<float>;
        sum -= lane.exp2(log2) * lane.load(delta, query);
      }
    }
    TRILITH_UNROLL
    for (int distance = simt::warp_size / 2; distance > 0; distance /= 2) {
      sum += lane.shuffle_xor(sum, distance);
    }
    const simt::Shared<float> of_warps = lane.shared(simt::Array<float, warps>{});
    if (lane.index() == 0) lane.store(of_warps, lane.warp(), sum);
    lane.barrier();
    if (lane.thread() != 0) return;
    float total = p.accumulate ? lane.load(p.d_sinks, head) : 0.0f;
    TRILITH_UNROLL
    for (int warp = 0; warp < warps; ++warp) total += lane.load(of_warps, warp);
    lane.store(p.d_sinks, head, total);
  }
};

}  // namespace trilith::inline v0::kernels
