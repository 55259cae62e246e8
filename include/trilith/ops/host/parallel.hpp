// How operations are shared out to the threads of a stream.
//
// A team whose members wait for each other costs microseconds, and far more where other programs share the
// cores, so each member gets work that takes some tens of them. How many there are depends on extents alone.
// Parts begin at multiples of a vector's lanes, so an element lies in the same lane, and gets the same bits,
// for any number of threads.
#pragma once

#include <algorithm>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host/simd.hpp>

namespace trilith::inline v0::ops::parallel {

inline constexpr Index least_work = Index{1} << 15;           // elements
inline constexpr Index least_multiply_adds = Index{1} << 21;  // of matrix products

// How many items, of `work` each, make up a part worth a thread.
constexpr Index grain(Index work, Index least = least_work) {
  return ceil_divide(least, std::max<Index>(work, 1));
}

// body(first, last) for parts of the rows of a (rows, columns) matrix.
template <class Body>
inline void rows(const Host::Stream& stream, Index rows, Index columns, Body&& body) {
  stream.parallel_for(rows, grain(columns), body);
}

// Cuts rows into chunks, at most 64, whose number depends on the rows only. What each chunk sums in a place
// of its own, added up in order, has the same bits for any number of threads.
struct RowChunks {
  Index rows;
  Index size;
  Index count;

  explicit RowChunks(Index number_of_rows)
      : rows(number_of_rows),
        size(std::max<Index>(64, (number_of_rows + 63) / 64)),
        count(ceil_divide(number_of_rows, size)) {}
};

// body(chunk, row) for every row of a (rows, columns) matrix; those of a chunk one after the other,
// ascending.
template <class Body>
inline void chunked_rows(const Host::Stream& stream, const RowChunks& chunks, Index columns, Body&& body) {
  rows(stream, chunks.count, chunks.size * columns, [&](Index first, Index last) {
    for (Index chunk = first; chunk < last; ++chunk) {
      const Index end = std::min((chunk + 1) * chunks.size, chunks.rows);
      for (Index row = chunk * chunks.size; row < end; ++row) body(chunk, row);
    }
  });
}

// body(first, last) for parts of the columns of a (rows, columns) matrix; `first` is a multiple of lanes.
template <class Body>
inline void columns(const Host::Stream& stream, Index rows, Index columns, Body&& body) {
  const Index vectors = ceil_divide(columns, simd::lanes);
  stream.parallel_for(vectors, grain(rows * simd::lanes), [&](Index first, Index last) {
    body(first * simd::lanes, std::min(last * simd::lanes, columns));
  });
}

// body(first, last) for parts of `size` elements; `first` is a multiple of lanes.
template <class Body>
inline void elements(const Host::Stream& stream, Index size, Body&& body) {
  columns(stream, 1, size, body);
}

}  // namespace trilith::inline v0::ops::parallel
