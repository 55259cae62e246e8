// A block of keys and values as it travels between ranks: keys, then values, each (batch, rows, kv_heads,
// dimension) without gaps, so that one message carries both.
#pragma once

#include <concepts>
#include <type_traits>

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

struct KeyValueShape {
  Index batch;
  Index rows;
  Index heads;  // of keys and values
  Index dimension;

  Index elements() const { return 2 * batch * rows * heads * dimension; }

  template <class T>
  View<T, 4> keys(Vector<T> block) const {
    return {block.data(), {batch, rows, heads, dimension}};
  }
  template <class T>
  View<T, 4> values(Vector<T> block) const {
    return {block.data() + elements() / 2, {batch, rows, heads, dimension}};
  }
};

// Queries, keys and values, or their gradients: (batch, rows, heads or kv_heads, dimension), strided in all
// but the last.
template <class T>
struct Projections {
  View<T, 4> q, k, v;

  KeyValueShape key_values() const { return {k.extent(0), k.extent(1), k.extent(2), k.extent(3)}; }

  // NOLINTNEXTLINE(google-explicit-constructor): as from View<T> to View<const T>
  template <std::same_as<const T> U>
  operator Projections<U>() const requires(!std::is_const_v<T>) {
    return {q, k, v};
  }
};

}  // namespace trilith::inline v0
