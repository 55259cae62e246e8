// What tests of attention's kernels share: tensors as kernels have them, inputs in 16 bits, and a measure of
// what comes out.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/hop_mask.hpp>
#include <trilith/mask/mask.hpp>

#include "test/simt/buffer.hpp"
#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"
#include "test/support/unfused_attention.hpp"

namespace trilith::test {

// A tensor as kernels have it: rows of heads, `padding` elements between them.
template <class T>
class HeadBuffer {
 public:
  HeadBuffer(Index batch, Index sequence, Index heads, Index dimension, Index padding, T value)
      : extents_{batch, sequence, heads, dimension},
        stride_(heads * dimension + padding),
        elements_(std::max<Index>(batch * sequence * stride_, 1), value) {}

  View<T, 4> view() { return {elements_.data(), extents_, {extents_[1] * stride_, stride_, extents_[3], 1}}; }
  View<T, 4> keys(Index first, Index count) { return view().slice(1, first, count); }

  void take(const Tensor& x) {
    for (Index row = 0; row < x.rows(); ++row) {
      for (Index column = 0; column < x.columns(); ++column) {
        elements_[row * stride_ + column] = T(x(row, column));
      }
    }
  }
  void give(Tensor& x) {
    for (Index row = 0; row < x.rows(); ++row) {
      for (Index column = 0; column < x.columns(); ++column) {
        x(row, column) = static_cast<float>(elements_[row * stride_ + column]);
      }
    }
  }

 private:
  std::array<Index, 4> extents_;
  Index stride_;
  Buffer<T> elements_;
};

// Between what the first ten of the queries see and what the others do lie 230 keys that none sees. A warp
// has some of both, and so skips tiles between others that it takes.
inline NamedMask gap_of(Index queries, Index keys) {
  return {"gap", mask::documents({0, 10, 10, queries}, {0, 20, 250, keys})};
}

// Only queries from the 40th on and before the last 50 see keys: all but the first 30 and the last 30.
inline NamedMask inner_rectangle(Index queries, Index keys) {
  return {"inner rectangle", mask::documents({0, 0, 40, queries - 50, queries, queries},
                                             {0, 30, 30, keys - 30, keys - 30, keys})};
}

// What the operations are told of a mask, and so the kernels.
inline kernels::HopMask hop_mask_of(const AttentionShape& s) {
  return OwnKeyRanges(s).view().rectangle ? kernels::HopMask::rectangle : kernels::HopMask::intervals;
}

// Tiles of queries and keys of which a query sees a key, over batch and heads.
inline Index tiles_seen(const AttentionShape& s, Index query_tile, Index key_tile) {
  const BoundMask bound = s.mask.mask.of(s.queries, s.keys);
  Index count = 0;
  for (Index query = 0; query < s.queries; query += query_tile) {
    for (Index key = 0; key < s.keys; key += key_tile) {
      bool seen = false;
      for (Index i = query; i < std::min(s.queries, query + query_tile); ++i) {
        for (Index j = key; j < std::min(s.keys, key + key_tile); ++j) seen |= bound.sees(i, j);
      }
      count += seen;
    }
  }
  return count * s.batch * s.heads;
}

// The mma of a product for each of so many tiles.
constexpr Index products(Index tiles, Index rows, Index columns, Index width) {
  return tiles * rows * columns * width / (16 * 8 * 16);
}

// The inputs of attention, all of them numbers that T has.
template <half T>
AttentionInputs inputs_in(const AttentionShape& s, std::uint64_t seed = 0) {
  AttentionInputs x(s, seed);
  for (Tensor* each : {&x.q, &x.k, &x.v, &x.d_out}) round_to<T>(*each);
  return x;
}

// The greatest |x − expected|; NaN gives +∞.
template <class X>
double greatest_error(const X& x, const Reference& expected, const Tensor& shaped) {
  double most = 0;
  for (Index row = 0; row < shaped.rows(); ++row) {
    for (Index column = 0; column < shaped.columns(); ++column) {
      const double error = std::abs(double{x(row, column)} - expected(row, column));
      if (std::isnan(error)) return std::numeric_limits<double>::infinity();
      most = std::max(most, error);
    }
  }
  return most;
}

}  // namespace trilith::test
