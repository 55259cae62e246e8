// The gradient of a token table: d_table[token n] += dy[n], in ascending n, without atomics and without
// memory of its own.
//
// A block takes a token n and up to 4 packs of columns a thread. It goes on only where no token before n is
// equal; then it looks for all equal ones from n on, a few at once, and adds their rows.
#pragma once

#include <bit>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/embedding.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

template <element T, int N>
struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  static constexpr int threads = 128;
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int packs = 4;
  static constexpr int shared_bytes = 2 * warps * 4;
  static constexpr int blocks_per_multiprocessor = 10;
  struct Params {
    simt::Global<const std::int32_t> tokens;
    StridedRows<const T> dy;
    HeldRows held;
    int columns;  // a multiple of N
    StridedRows<float> d_table;
  };

  static constexpr simt::Dim3 grid(Index tokens, Index columns) {
    return {.x = static_cast<int>(tokens),
            .y = static_cast<int>(ceil_divide(columns, Index{threads} * packs * N))};
  }

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const int n = lane.block().x;
    const std::int32_t token = lane.load(p.tokens, n);
    const Index row = p.held.of(token);
    if (row < 0) return;
    const auto of_warps = lane.shared(simt::Array<std::uint32_t, 2 * warps>{});
    bool earlier = false;
    for (int m = lane.thread(); m < n; m += threads) earlier |= lane.load(p.tokens, m) == token;
    if (vote(lane, of_warps, 0, earlier)) return;

    const int first = (lane.block().y * threads * packs + lane.thread()) * N;
    Floats<N> sums[packs];
    for_each_pack(first, p.columns,
                  [&](int i, int column) { sums[i] = load_floats<N>(lane, p.d_table, row, column); });
    const int count = static_cast<int>(p.tokens.size);
    int half = 1;
    for (int base = n; base < count; base += threads) {
      const int m = base + lane.thread();
      vote(lane, of_warps, half, m < count && lane.load(p.tokens, m) == token);
      for (int warp = 0; warp < warps; ++warp) {
        for (std::uint32_t equal = lane.load(of_warps, half * warps + warp); equal != 0; equal &= equal - 1) {
          const Index from = base + warp * simt::warp_size + std::countr_zero(equal);
          for_each_pack(first, p.columns, [&](int i, int column) {
            sums[i] = sums[i] + load_floats<N>(lane, p.dy, from, column);
          });
        }
      }
      half = 1 - half;
    }
    for_each_pack(first, p.columns,
                  [&](int i, int column) { store_floats(lane, p.d_table, row, column, sums[i]); });
  }

 private:
  // Leaves each warp's votes in a half of `of_warps`; they are read before this half is used again. Whether
  // there is any.
  template <class Lane>
  static TRILITH_DEVICE bool vote(Lane& lane, simt::Shared<std::uint32_t> of_warps, int half, bool mine) {
    const std::uint32_t votes = lane.ballot(mine);
    if (lane.index() == 0) lane.store(of_warps, half * warps + lane.warp(), votes);
    lane.barrier();
    std::uint32_t all = 0;
    TRILITH_UNROLL
    for (int warp = 0; warp < warps; ++warp) all |= lane.load(of_warps, half * warps + warp);
    return all != 0;
  }

  template <class F>
  static TRILITH_DEVICE void for_each_pack(int first, int columns, F f) {
    TRILITH_UNROLL
    for (int i = 0; i < packs; ++i) {
      const int column = first + i * threads * N;
      if (column < columns) f(i, column);
    }
  }
};

}  // namespace trilith::inline v0::kernels
