// delta = the row sums of d_out · out, which the backward kernels of attention need.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// A block takes 64 queries of one head; width / 8 lanes a row, 16 bytes each. Grid: (tiles of queries, heads,
// batch).
template <half T, int width>
struct AttentionDelta {
  static_assert(width == 64 || width == 128 || width == 256,
                "AttentionDelta: the width must be 64, 128 or 256");

  static constexpr const char* name = "attention_delta";
  static constexpr int threads = 128;
  static constexpr int rows = 64;  // of a block
  static constexpr int shared_bytes = rows * 4;
  static constexpr int blocks_per_multiprocessor = 8;

  struct Params {
    HeadTensor<const T> out;    // (batch, queries, heads, dimension)
    HeadTensor<const T> d_out;  // (batch, queries, heads, dimension)
    PerQuery<float> delta;      // (batch, heads, queries)
    int queries;
    int dimension;  // a multiple of 8
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    constexpr int lanes = width / 8;  // of a row
    constexpr int step = threads / lanes;
    const StridedRows<const T> out = p.out.head(lane.block().z, lane.block().y);
    const StridedRows<const T> d_out = p.d_out.head(lane.block().z, lane.block().y);
    const int first = lane.block().x * rows;
    const int column = lane.thread() % lanes * 8;
    const simt::Shared<float> sums = lane.shared(simt::Array<float, rows>{});
    TRILITH_UNROLL
    for (int i = 0; i < rows; i += step) {
      const int row = i + lane.thread() / lanes;
      float sum = 0;
      if (first + row < p.queries && column < p.dimension) {
        const auto x = lane.load(out.elements, (first + row) * out.stride + column, simt::Width<8>{});
        const auto y = lane.load(d_out.elements, (first + row) * d_out.stride + column, simt::Width<8>{});
        TRILITH_UNROLL
        for (int j = 0; j < 8; ++j) sum += static_cast<float>(x[j]) * static_cast<float>(y[j]);
      }
      TRILITH_UNROLL
      for (int distance = lanes / 2; distance > 0; distance /= 2) sum += lane.shuffle_xor(sum, distance);
      if (column == 0) lane.store(sums, row, sum);
    }
    lane.barrier();
    if (lane.thread() < rows && first + lane.thread() < p.queries) {
      lane.store(p.delta.head(lane.block().z, lane.block().y), first + lane.thread(),
                 lane.load(sums, lane.thread()));
    }
  }
};

}  // namespace trilith::inline v0::kernels
