// The gradient of a token table: d_table[token n] += dy[n], in ascending n, without atomics and without
// memory of its own.
//
// A block takes a token n and up to 4 packs of columns a thread. It looks back from n, and ends as soon as it
// meets an equal token, as most do in a text; the first of its kind then looks for all equal ones from n on,
// and adds their rows.
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
  static constexpr int looks = 4;  // tokens of a thread whose loads are under way at once
  static constexpr int words = looks * warps;
  static constexpr int shared_bytes = 2 * words * 4;
  static constexpr int blocks_per_multiprocessor = 8;
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
    const auto found = lane.shared(simt::Array<std::uint32_t, 2 * words>{});
    constexpr int span = looks * threads;
    int half = 0;
    const auto look = [&](int base, int end) {
      half = words - half;
      return find(lane, p.tokens, token, base, end, found, half);
    };
    for (int end = n; end > 0; end -= span) {
      if (look(end - span, end)) return;
    }

    const int first = (lane.block().y * threads * packs + lane.thread()) * N;
    Floats<N> sums[packs];
    for_each_pack(first, p.columns,
                  [&](int i, int column) { sums[i] = load_floats<N>(lane, p.d_table, row, column); });
    const int count = static_cast<int>(p.tokens.size);
    for (int base = n; base < count; base += span) {
      if (!look(base, count)) continue;
      for (int word = 0; word < words; ++word) {
        for (std::uint32_t equal = lane.load(found, half + word); equal != 0; equal &= equal - 1) {
          const Index from = base + word * simt::warp_size + std::countr_zero(equal);
          for_each_pack(first, p.columns, [&](int i, int column) {
            sums[i] = sums[i] + load_floats<N>(lane, p.dy, from, column);
          });
        }
      }
    }
    for_each_pack(first, p.columns,
                  [&](int i, int column) { store_floats(lane, p.d_table, row, column, sums[i]); });
  }

 private:
  // Which of the `words` · 32 tokens from `base` on, up to `end`, are `token`: a bit each, in the words of
  // `found` from `half` on, which are read before this half is used again. Whether any is.
  template <class Lane>
  static TRILITH_DEVICE bool find(Lane& lane, simt::Global<const std::int32_t> tokens, std::int32_t token,
                                  int base, int end, simt::Shared<std::uint32_t> found, int half) {
    bool equal[looks];
    TRILITH_UNROLL
    for (int i = 0; i < looks; ++i) {
      const int m = base + i * threads + lane.thread();
      equal[i] = m >= 0 && m < end && lane.load(tokens, m) == token;
    }
    TRILITH_UNROLL
    for (int i = 0; i < looks; ++i) {
      const std::uint32_t word = lane.ballot(equal[i]);
      if (lane.index() == 0) lane.store(found, half + i * warps + lane.warp(), word);
    }
    lane.barrier();
    std::uint32_t any = 0;
    TRILITH_UNROLL
    for (int i = 0; i < words; i += 4) {
      const auto four = lane.load(found, half + i, simt::Width<4>{});
      any |= four[0] | four[1] | four[2] | four[3];
    }
    return any != 0;
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
