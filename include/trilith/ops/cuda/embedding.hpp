// Token and position embeddings on streams that run kernels; see ops/host/embedding.hpp. The gradients of the
// tables are float32.
#pragma once

#include <cstdint>
#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/embedding.hpp>
#include <trilith/kernels/embedding_backward.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// y[n] = the row of token n, or zeros where another rank holds it.
template <kernel_stream S, kernels::element T>
void embedding(const S& stream, Vector<const std::int32_t> tokens,
               Matrix<const std::type_identity_t<T>> table,  // (vocabulary / TP, hidden)
               Index first_row, Matrix<T> y) {
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::Embedding<T>, n>(
      stream, y.extent(0), y.extent(1), detail::rows_aligned<n>(table, y),
      {detail::span_of(tokens), detail::rows_of(table), {first_row, table.extent(0)}, detail::rows_of(y)});
}

// d_table[token n] += dy[n] for the tokens whose rows this rank holds, in ascending n. The first of equal
// tokens is compared with all others, a later one with those between it and the one before, for each 2048
// columns anew: about 2 · tokens · distinct tokens / 32 loads of a warp at most, from the caches.
template <kernel_stream S, class E>
void embedding_backward(const S& stream, Vector<const std::int32_t> tokens, Matrix<E> dy, Index first_row,
                        Matrix<float> d_table) {  // (vocabulary / TP, hidden)
  using T = std::remove_const_t<E>;
  constexpr int n = kernels::widest<float, T>;
  if (dy.size() == 0 || d_table.size() == 0) return;
  const auto launch = [&]<class Kernel>(const Kernel& kernel) {
    stream.launch(kernel, Kernel::grid(dy.extent(0), dy.extent(1)),
                  {detail::span_of(tokens),
                   detail::rows_of(dy),
                   {first_row, d_table.extent(0)},
                   static_cast<int>(dy.extent(1)),
                   detail::rows_of(d_table)});
  };
  if (dy.extent(1) % n == 0 && detail::rows_aligned<n>(dy, d_table)) {
    launch(kernels::EmbeddingBackward<T, n>{});
  } else {
    launch(kernels::EmbeddingBackward<T, 1>{});
  }
}

// y += the rows of the table that belong to the positions, in each sequence of the batch; a negative position
// adds nothing.
template <kernel_stream S, kernels::element T>
void add_positions(const S& stream, Matrix<const std::type_identity_t<T>> table,  // (positions, hidden)
                   Vector<const std::int32_t> positions,                          // (sequence)
                   Matrix<T> y) {  // (batch · sequence, hidden)
  constexpr int n = kernels::widest<T>;
  detail::launch_each<kernels::AddPositions<T>, n>(
      stream, y.extent(0), y.extent(1), detail::rows_aligned<n>(table, y),
      {detail::rows_of(table), detail::span_of(positions), detail::rows_of(y)});
}

// The rows of d_table that belong to the positions = or += the sum of dy over the batch, in ascending order.
// Other rows are left as they are.
template <kernel_stream S, class E>
void positions_backward(const S& stream, Matrix<E> dy,         // (batch · sequence, hidden)
                        Vector<const std::int32_t> positions,  // (sequence)
                        Matrix<float> d_table,                 // (positions, hidden)
                        Accumulate accumulate) {
  using T = std::remove_const_t<E>;
  constexpr int n = kernels::widest<float, T>;
  detail::launch_each<kernels::PositionsBackward<T>, n>(
      stream, positions.size(), d_table.extent(1), detail::rows_aligned<n>(dy, d_table),
      {detail::rows_of(dy), detail::span_of(positions), detail::rows_of(d_table), dy.extent(0),
       accumulate == Accumulate::yes});
}

}  // namespace trilith::inline v0::ops
