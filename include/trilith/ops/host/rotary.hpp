// Rotary position embedding: Su et al., "RoFormer: enhanced transformer with rotary position embedding",
// 2021, with the pairs as Llama's checkpoints have them. In each head of a row at position p
//
//     (x[i], x[i + dimension / 2])  is rotated by the angle  p · theta^(−2i / dimension).
//
// A table holds the cosines and sines of the rows of one sequence, for all heads, layers and sequences that
// lie at the same positions. It is (sequence, dimension): cosines in the first half of a row, sines in the
// second. Dimensions are even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// Of one head: (a, b) = (a · cos − b · sin, b · cos + a · sin), or by the negative angle.
template <bool Back>
inline void rotate(Index half, const float* cosines, const float* sines, float* x) {
  using simd::Floats;
  simd::for_each_vector(half, [&](Index i, auto w) {
    const Floats cosine = simd::load_first(cosines + i, w);
    const Floats sine = Back ? -simd::load_first(sines + i, w) : simd::load_first(sines + i, w);
    const Floats a = simd::load_first(x + i, w);
    const Floats b = simd::load_first(x + half + i, w);
    simd::store_first(x + i, a * cosine - b * sine, w);
    simd::store_first(x + half + i, b * cosine + a * sine, w);
  });
}

template <bool Back>
inline void rotate(const Host::Stream& stream, Matrix<const float> table, View<float, 4> x) {
  const Index rows = x.extent(1);
  const Index half = x.extent(3) / 2;
  parallel::rows(stream, x.extent(0) * rows, x.extent(2) * x.extent(3), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const float* const cosines = &table(i % rows, 0);
      for (Index head = 0; head < x.extent(2); ++head) {
        rotate<Back>(half, cosines, cosines + half, &x(i / rows, i % rows, head, 0));
      }
    }
  });
}

}  // namespace detail

// The table of rows at `positions`, which count from the beginning of the whole sequence. A row of padding,
// whose position is negative, is not rotated. Angles are float64: up to position 2^20 entries are within
// 3.1e-8, of which 3.0e-8 is their own rounding.
inline void rotary_table(const Host::Stream& stream, Vector<const std::int32_t> positions,  // (sequence)
                         float theta,
                         Matrix<float> table) {  // (sequence, dimension)
  // A cosine takes as long as this many additions.
  constexpr Index work = 64;
  const Index half = table.extent(1) / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (Index i = 0; i < half; ++i) {
    frequencies[static_cast<std::size_t>(i)] =
        std::pow(double{theta}, -static_cast<double>(i) / static_cast<double>(half));
  }
  parallel::rows(stream, positions.size(), table.extent(1) * work, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const double position = std::max(positions(row), 0);
      for (Index i = 0; i < half; ++i) {
        const double angle = position * frequencies[static_cast<std::size_t>(i)];
        table(row, i) = static_cast<float>(std::cos(angle));
        table(row, half + i) = static_cast<float>(std::sin(angle));
      }
    }
  });
}

// Rotates every head of x, in place.
inline void rotary(const Host::Stream& stream, Matrix<const float> table,  // (sequence, dimension)
                   View<float, 4> x) {  // (batch, sequence, heads, dimension)
  detail::rotate<false>(stream, table, x);
}

// The gradient of what rotary gave becomes that of what it was given, in place: rotation by negative angles.
inline void rotary_backward(const Host::Stream& stream, Matrix<const float> table,  // (sequence, dimension)
                            View<float, 4> d) {  // (batch, sequence, heads, dimension)
  detail::rotate<true>(stream, table, d);
}

}  // namespace trilith::inline v0::ops
