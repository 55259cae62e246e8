// The rotary position embedding of a model: the angles of this rank's rows, which lie anywhere in a sequence,
// shared by all its layers.
#pragma once

#include <cstddef>

#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/nn/row_positions.hpp>

namespace trilith::inline v0 {

struct RotaryShape {
  Index dimension;  // of a head; even
  float theta;
};

template <device D>
class Rotary {
 public:
  // For `rows` of a sequence of `length`.
  template <class Split>
  Rotary(const RotaryShape& shape, const LocalRows<Split>& rows, Index length, typename D::memory& memory,
         const typename D::stream& s)
      : positions_(rows, length, memory, s),
        memory_(memory.allocate(static_cast<std::size_t>(rows.size() * shape.dimension) * sizeof(float))),
        table_(reinterpret_cast<float*>(memory_.data()), {rows.size(), shape.dimension}) {
    rotary_table(s, positions_.view(), shape.theta, table_);
  }

  // (rows, dimension), as ops/host/rotary.hpp lays it out.
  Matrix<const float> table() const { return table_; }

 private:
  RowPositions<D> positions_;
  typename D::allocation memory_;
  Matrix<float> table_;
};

}  // namespace trilith::inline v0
