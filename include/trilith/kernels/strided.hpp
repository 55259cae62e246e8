// Strided tensors as kernel parameters: what they span of global memory, and strides in elements.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// (rows, columns)
template <class T>
struct StridedRows {
  simt::Global<T> elements;
  Index stride = 0;
};

// (batch, sequence, heads, dimension)
template <class T>
struct HeadTensor {
  simt::Global<T> elements;
  Index batch_stride = 0;
  Index row_stride = 0;
  Index head_stride = 0;

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
