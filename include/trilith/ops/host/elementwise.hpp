// Additions of biases, residuals and gradients, and their sums over rows.
//
// A row is a token, so a matrix is (batch · sequence, hidden) and a bias (hidden). Rows may be strided.
// An output given beside inputs is overwritten; "in place" says that an argument is both.
#pragma once

#include <algorithm>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/host/parallel.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// x[i] = (x[i] + bias[i]) + residual[i]
inline void add_bias_residual(Index width, const float* bias, const float* residual, float* x) {
  simd::for_each_vector(width, [&](Index i, auto w) {
    const simd::Floats biased = simd::load_first(x + i, w) + simd::load_first(bias + i, w);
    simd::store_first(x + i, biased + simd::load_first(residual + i, w), w);
  });
}

// y[i] = y[i] + x[i]
inline void add(Index width, const float* x, float* y) {
  simd::for_each_vector(width, [&](Index i, auto w) {
    simd::store_first(y + i, simd::load_first(y + i, w) + simd::load_first(x + i, w), w);
  });
}

}  // namespace detail

// x += bias in every row, in place.
inline void add_bias(const Host::Stream& stream, Vector<const float> bias, Matrix<float> x) {
  const Index width = x.extent(1);
  parallel::rows(stream, x.extent(0), width, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      float* const to = &x(row, 0);
      simd::for_each_vector(width, [&](Index i, auto w) {
        simd::store_first(to + i, simd::load_first(to + i, w) + simd::load_first(&bias(i), w), w);
      });
    }
  });
}

// x = (x + bias) + residual, in place.
inline void add_bias_residual(const Host::Stream& stream, Vector<const float> bias,
                              Matrix<const float> residual, Matrix<float> x) {
  parallel::rows(stream, x.extent(0), x.extent(1), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      detail::add_bias_residual(x.extent(1), bias.data(), &residual(row, 0), &x(row, 0));
    }
  });
}

// db = or += the sum of the rows of dy. Rows are summed in chunks of 64, and the chunks in turn: rounding
// then grows with 64 + rows / 64 instead of with rows. Threads share out the columns.
inline void bias_gradient(const Host::Stream& stream, Matrix<const float> dy, Vector<float> db,
                          Accumulate accumulate) {
  constexpr Index chunk = 64;
  constexpr Index tile = 32 * simd::lanes;  // columns whose sums stay in the first-level cache
  const Index rows = dy.extent(0);

  const auto sum_tile = [&](Index column, Index width) {
    float* const total = &db(column);
    if (accumulate == Accumulate::no) std::fill_n(total, width, 0.0f);
    for (Index first = 0; first < rows; first += chunk) {
      const Index last = std::min(first + chunk, rows);
      float sums[tile] = {};
      Index row = first;
      for (; row + 4 <= last; row += 4) {
        const float* const a = &dy(row, column);
        const float* const b = &dy(row + 1, column);
        const float* const c = &dy(row + 2, column);
        const float* const d = &dy(row + 3, column);
        simd::for_each_vector(width, [&](Index i, auto w) {
          simd::Floats sum = simd::load(sums + i);
          sum += simd::load_first(a + i, w);
          sum += simd::load_first(b + i, w);
          sum += simd::load_first(c + i, w);
          sum += simd::load_first(d + i, w);
          simd::store(sums + i, sum);
        });
      }
      for (; row < last; ++row) {
        const float* const from = &dy(row, column);
        simd::for_each_vector(width, [&](Index i, auto w) {
          simd::store(sums + i, simd::load(sums + i) + simd::load_first(from + i, w));
        });
      }
      simd::for_each_vector(width, [&](Index i, auto w) {
        simd::store_first(total + i, simd::load_first(total + i, w) + simd::load(sums + i), w);
      });
    }
  };

  parallel::columns(stream, rows, dy.extent(1), [&](Index first, Index last) {
    for (Index column = first; column < last; column += tile) {
      sum_tile(column, std::min(tile, last - column));
    }
  });
}

// y += x
inline void add(const Host::Stream& stream, Vector<const float> x, Vector<float> y) {
  parallel::elements(stream, y.size(),
                     [&](Index first, Index last) { detail::add(last - first, &x(first), &y(first)); });
}

// y *= factor
inline void scale(const Host::Stream& stream, float factor, Vector<float> y) {
  parallel::elements(stream, y.size(), [&](Index first, Index last) {
    float* const to = &y(first);
    simd::for_each_vector(last - first, [&](Index i, auto w) {
      simd::store_first(to + i, simd::load_first(to + i, w) * factor, w);
    });
  });
}

// y = value
inline void fill(const Host::Stream& stream, Vector<float> y, float value) {
  parallel::elements(stream, y.size(),
                     [&](Index first, Index last) { std::fill_n(&y(first), last - first, value); });
}

// to = from; the two must not overlap.
inline void copy(const Host::Stream& stream, Vector<const float> from, Vector<float> to) {
  parallel::elements(stream, to.size(),
                     [&](Index first, Index last) { std::copy_n(&from(first), last - first, &to(first)); });
}

// The same for (batch, rows, heads, dimension), strided in all but the last.
inline void copy(const Host::Stream& stream, View<const float, 4> from, View<float, 4> to) {
  const Index rows = from.extent(1);
  parallel::rows(
      stream, from.extent(0) * rows, from.extent(2) * from.extent(3), [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) {
          for (Index head = 0; head < from.extent(2); ++head) {
            std::copy_n(&from(i / rows, i % rows, head, 0), from.extent(3), &to(i / rows, i % rows, head, 0));
          }
        }
      });
}

}  // namespace trilith::inline v0::ops
