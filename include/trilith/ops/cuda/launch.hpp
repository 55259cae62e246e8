// How operations hand views to kernels, and launch those that go element by element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/column_sums.hpp>
#include <trilith/kernels/each.hpp>
#include <trilith/kernels/each_head.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::ops::detail {

// From the first element of a view to its last one.
template <class T, int Rank>
constexpr simt::Global<T> span_of(View<T, Rank> view) {
  Index size = 1;
  for (int d = 0; d < Rank; ++d) {
    if (view.extent(d) == 0) return {view.data(), 0};
    size += (view.extent(d) - 1) * view.stride(d);
  }
  return {view.data(), size};
}

template <class T>
constexpr kernels::StridedRows<T> rows_of(Matrix<T> view) {
  return {span_of(view), view.stride(0)};
}
template <class T>
constexpr kernels::StridedRows<T> rows_of(Vector<T> view) {
  return {span_of(view), 0};
}

template <class T>
constexpr kernels::HeadTensor<T> head_tensor(View<T, 4> view) {
  return {span_of(view), view.stride(0), view.stride(1), view.stride(2)};
}

// Whether every row of the views begins where a load of N elements may.
template <int N, class... T, int... Rank>
bool rows_aligned(View<T, Rank>... views) {
  const auto aligned = [](auto view) {
    constexpr std::uintptr_t bytes = N * sizeof(*view.data());
    if (reinterpret_cast<std::uintptr_t>(view.data()) % bytes != 0) return false;
    for (std::size_t d = 0; d + 1 < view.extents().size(); ++d) {
      if (view.extent(static_cast<int>(d)) > 1 && view.stride(static_cast<int>(d)) % N != 0) return false;
    }
    return true;
  };
  return (aligned(views) && ...);
}

inline kernels::Share share_of(Index rows, Index items) {
  constexpr Index most = kernels::Share::most;
  if (rows > most || items > most) {
    throw Error("an operation on more than " + std::to_string(most) + " rows, or loads of a row",
                "use a smaller batch or sequence, or more ranks");
  }
  return kernels::Share::of(rows, items);
}

// Operation on (rows, columns), N elements at once if `aligned`.
template <class Operation, int N, kernel_stream S>
void launch_each(const S& stream, Index rows, Index columns, bool aligned,
                 const typename Operation::Params& operands) {
  if (rows == 0 || columns == 0) return;
  if (!aligned && N > 1) return launch_each<Operation, 1>(stream, rows, columns, true, operands);
  const kernels::Share share = share_of(rows, ceil_divide(columns, N));
  stream.launch(kernels::EachPack<Operation, N>{}, share.grid(), {share, columns, operands});
}

// Operation on the first `columns` of every head of `shape`, N elements at once if `aligned`.
template <class Operation, int N, kernel_stream S, class T>
void launch_each_head(const S& stream, View<T, 4> shape, Index columns, bool aligned,
                      const typename Operation::Params& operands) {
  if (shape.size() == 0) return;
  if (!aligned && N > 1) return launch_each_head<Operation, 1>(stream, shape, columns, true, operands);
  const Index packs = ceil_divide(columns, N);
  const kernels::Share share = share_of(shape.extent(0) * shape.extent(1), packs * shape.extent(2));
  stream.launch(kernels::EachHead<Operation, N>{}, share.grid(),
                {share, static_cast<std::uint32_t>(shape.extent(1)), static_cast<std::uint32_t>(packs),
                 static_cast<std::uint32_t>(columns), operands});
}

// Sums of Terms over each of `parts` of the rows: (parts, columns), or (columns) of one part.
template <class Terms, int N, kernel_stream S, class Sums>
void launch_sums_of_parts(const S& stream, Index rows, int parts, const typename Terms::Params& terms,
                          Accumulate accumulate, const std::array<Sums, Terms::count>& sums) {
  using Kernel = kernels::ColumnSums<Terms, N>;
  const Index columns = sums[0].extents().back();
  typename Kernel::Params params{rows, columns, accumulate == Accumulate::yes, terms, {}};
  for (int i = 0; i < Terms::count; ++i) params.sums[i] = span_of(sums[i]);
  stream.launch(Kernel{}, Kernel::grid(columns, parts), params);
}

// Sums of Terms over `rows`, for each column, N columns of a thread if `aligned`.
template <class Terms, int N, kernel_stream S>
void launch_column_sums(const S& stream, Index rows, bool aligned, const typename Terms::Params& terms,
                        Accumulate accumulate, const std::array<Vector<float>, Terms::count>& sums) {
  const Index columns = sums[0].size();
  if (columns == 0) return;
  if (N > 1 && (!aligned || columns % N != 0)) {
    return launch_column_sums<Terms, 1>(stream, rows, true, terms, accumulate, sums);
  }
  const int parts = kernels::ColumnSums<Terms, N>::parts(rows, columns);
  if (parts == 1) return launch_sums_of_parts<Terms, N>(stream, rows, 1, terms, accumulate, sums);

  const Index elements = parts * columns;
  const auto scratch = static_cast<float*>(stream.scratch(Terms::count * elements * sizeof(float)));
  std::array<Matrix<float>, Terms::count> of_parts;
  for (int i = 0; i < Terms::count; ++i) of_parts[i] = {scratch + i * elements, {parts, columns}};
  launch_sums_of_parts<Terms, N>(stream, rows, parts, terms, Accumulate::no, of_parts);
  using Parts = kernels::BiasTerms<float>;
  constexpr int n = N > 1 ? kernels::widest<float> : 1;  // divides columns, as N does
  for (int i = 0; i < Terms::count; ++i) {
    launch_sums_of_parts<Parts, n>(stream, parts, 1, {rows_of(of_parts[i])}, accumulate, std::array{sums[i]});
  }
}

}  // namespace trilith::inline v0::ops::detail
