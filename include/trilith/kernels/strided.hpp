// Strided tensors as kernel parameters: what they span of global memory, and strides in elements.
#pragma once

#include <concepts>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// (rows, columns)
template <class T>
struct StridedRows {
  simt::Global<T> elements;
  Index stride = 0;

  // Implicit, as from T* to const T*.
  template <std::same_as<const T> C>
  // NOLINTNEXTLINE(google-explicit-constructor)
  TRILITH_HOST_DEVICE operator StridedRows<C>() const {
    return {elements, stride};
  }

  TRILITH_HOST_DEVICE Index at(Index row, Index column) const { return row * stride + column; }

  // Whether there are any, where an operand may be left out.
  TRILITH_HOST_DEVICE bool given() const { return elements.data != nullptr; }
};

struct HeadPlace {
  Index batch;
  Index row;
  Index head;
  Index column;
};

// (batch, sequence, heads, dimension)
template <class T>
struct HeadTensor {
  simt::Global<T> elements;
  Index batch_stride = 0;
  Index row_stride = 0;
  Index head_stride = 0;

  TRILITH_HOST_DEVICE Index at(const HeadPlace& p) const {
    return p.batch * batch_stride + p.row * row_stride + p.head * head_stride + p.column;
  }

  // (sequence, dimension) of one head.
  TRILITH_DEVICE StridedRows<T> head(int batch, int head) const {
    return {elements.from(batch * batch_stride + head * head_stride), row_stride};
  }
};

// One number of each query of each head: (batch, heads, queries)
template <class T>
struct PerQuery {
  simt::Global<T> elements;
  Index batch_stride = 0;
  Index head_stride = 0;

  // (queries) of one head.
  TRILITH_DEVICE simt::Global<T> head(int batch, int head) const {
    return elements.from(batch * batch_stride + head * head_stride);
  }
};

}  // namespace trilith::inline v0::kernels
