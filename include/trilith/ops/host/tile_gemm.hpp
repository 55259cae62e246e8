// Products of tiles that lie in a core's caches: for kernels that fuse a product with what comes before and
// after it. Whole matrices go to gemm.hpp.
//
// c = a · b or c += a · b. A microkernel holds row_block rows and one panel of columns of c in registers,
// takes one element of `a` at a time, and vectors of a row of `b`. So `a` may lie in either order, while the
// rows of `b` and `c` are contiguous; whoever needs the other order of `b` packs it with pack_transposed.
//
// Each element of c is one chain of multiply-adds in ascending order of the inner index, whatever the tile: a
// product has the same bits in every kernel that forms it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops::tile {

// row_block × vectors accumulators fill half of the registers, and hide the latency of the multiply-add.
#ifdef __AVX512F__
inline constexpr Index row_block = 8;
inline constexpr Index vectors = 2;
#else
inline constexpr Index row_block = 4;
inline constexpr Index vectors = 1;
#endif
inline constexpr Index panel = vectors * simd::lanes;

// Which index of a (row, inner) is contiguous.
enum class Contiguous { row, inner };

// The left factor; `stride` is that of the other index.
template <Contiguous Order>
struct Left {
  const float* data;
  Index stride;

  Left from(Index row, Index inner) const {
    return {Order == Contiguous::row ? data + inner * stride + row : data + row * stride + inner, stride};
  }
};

// body(i) for i = 0, 1, …, Count − 1 as constants. Arrays indexed by them stay in registers; after a loop
// that the compiler unrolls itself, g++ writes them to the stack and back.
template <Index Count, class Body>
inline void unroll(Body body) {
  [&]<Index... I>(std::integer_sequence<Index, I...>) {
    (body(std::integral_constant<Index, I>{}), ...);
  }
  (std::make_integer_sequence<Index, Count>{});
}

// One block of row_block rows and `Vectors` vectors of multiply().
//
// Not inlined: in a large function its addresses would compete for registers, at the cost of up to a quarter
// of its rate.
template <Accumulate Sum, Index Vectors, Contiguous Order>
[[gnu::noinline]] inline void multiply_block(Index inner, Left<Order> a, const float* b, Index b_stride,
                                             float* c, Index c_stride) {
  simd::Floats sums[row_block][Vectors];
  unroll<row_block>([&](auto i) {
    unroll<Vectors>([&](auto v) {
      sums[i][v] = Sum == Accumulate::yes ? simd::load(c + i * c_stride + v * simd::lanes) : simd::Floats{};
    });
  });
  for (Index k = 0; k < inner; ++k) {
    simd::Floats row[Vectors];
    unroll<Vectors>([&](auto v) { row[v] = simd::load(b + k * b_stride + v * simd::lanes); });
    unroll<row_block>([&](auto i) {
      const simd::Floats x = simd::broadcast(*a.from(i, k).data);
      unroll<Vectors>([&](auto v) { sums[i][v] += x * row[v]; });
    });
  }
  unroll<row_block>([&](auto i) {
    unroll<Vectors>([&](auto v) { simd::store(c + i * c_stride + v * simd::lanes, sums[i][v]); });
  });
}

// a: (rows, inner), b: (inner, columns), c: (rows, columns). `columns` is a multiple of simd::lanes. `a` and
// c have room for `rows` rounded up to row_block: what is in the rows beyond is read and overwritten.
template <Accumulate Sum, Contiguous Order>
inline void multiply(Index rows, Index columns, Index inner, Left<Order> a, const float* b, Index b_stride,
                     float* c, Index c_stride) {
  Index column = 0;
  for (; column + panel <= columns; column += panel) {
    for (Index row = 0; row < rows; row += row_block) {
      multiply_block<Sum, vectors>(inner, a.from(row, 0), b + column, b_stride, c + row * c_stride + column,
                                   c_stride);
    }
  }
  if (column < columns) {
    for (Index row = 0; row < rows; row += row_block) {
      multiply_block<Sum, 1>(inner, a.from(row, 0), b + column, b_stride, c + row * c_stride + column,
                             c_stride);
    }
  }
}

// factor · from, as rows of `stride` floats (a multiple of simd::lanes); what `from` does not fill of
// them is 0.
inline void pack_rows(Matrix<const float> from, float factor, float* to, Index stride) {
  const Index columns = from.extent(1);
  for (Index row = 0; row < from.extent(0); ++row) {
    for (Index column = 0; column < stride; column += simd::lanes) {
      const Index count = std::clamp<Index>(columns - column, 0, simd::lanes);
      const float* source = &from(row, column);
      const simd::Floats x = count == simd::lanes ? simd::load(source) : simd::load_first(source, count);
      simd::store(to + row * stride + column, x * factor);
    }
  }
}

// to = the first columns of rows of `stride` floats, as pack_rows lays them out.
inline void unpack_rows(const float* from, Index stride, Matrix<float> to) {
  const Index columns = to.extent(1);
  for (Index row = 0; row < to.extent(0); ++row) {
    for (Index column = 0; column < columns; column += simd::lanes) {
      const Index count = std::min(columns - column, simd::lanes);
      const simd::Floats x = simd::load(from + row * stride + column);
      if (count == simd::lanes) {
        simd::store(&to(row, column), x);
      } else {
        simd::store_first(&to(row, column), x, count);
      }
    }
  }
}

// factor · fromᵀ in panels: to[p][c][r] = factor · from(p · panel + r, c), (rows / panel, columns, panel).
// The last panel is filled up with 0.
inline void pack_transposed(Matrix<const float> from, float factor, float* to) {
  const Index rows = from.extent(0);
  const Index columns = from.extent(1);
  for (Index row = 0; row < round_up(rows, panel); row += simd::lanes) {
    float* const target = to + row / panel * panel * columns + row % panel;
    for (Index column = 0; column < columns; column += simd::lanes) {
      const Index count = std::min(columns - column, simd::lanes);
      simd::Floats block[simd::lanes];
      for (Index i = 0; i < simd::lanes; ++i) {
        if (row + i >= rows) {
          block[i] = simd::Floats{};
        } else if (count == simd::lanes) {
          block[i] = simd::load(&from(row + i, column)) * factor;
        } else {
          block[i] = simd::load_first(&from(row + i, column), count) * factor;
        }
      }
      simd::transpose(block);
      for (Index i = 0; i < count; ++i) simd::store(target + (column + i) * panel, block[i]);
    }
  }
}

// Pieces of the calling thread's scratch memory, of the given numbers of floats, each aligned to a cache
// line. They hold whatever was left there, and are the caller's until the thread calls scratch again; the
// memory is kept for that call.
template <std::size_t Count>
inline std::array<float*, Count> scratch(const std::array<Index, Count>& floats) {
  struct alignas(64) Line {
    float of[simd::lanes];
  };
  thread_local std::vector<Line> lines;

  Index needed = 0;
  for (const Index n : floats) needed += round_up(n, simd::lanes) / simd::lanes;
  if (static_cast<Index>(lines.size()) < needed) lines.resize(static_cast<std::size_t>(needed));

  std::array<float*, Count> pieces{};
  Line* next = lines.data();
  for (std::size_t i = 0; i < Count; ++i) {
    pieces[i] = next->of;
    next += round_up(floats[i], simd::lanes) / simd::lanes;
  }
  return pieces;
}

}  // namespace trilith::inline v0::ops::tile
