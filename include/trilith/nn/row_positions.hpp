// Where the rows of a rank lie in their sequence, in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/mask/split.hpp>

namespace trilith::inline v0 {

template <device D>
class RowPositions {
 public:
  // Of `rows` in a sequence of `length`.
  template <class Split>
  RowPositions(const LocalRows<Split>& rows, Index length, typename D::memory& memory,
               const typename D::stream& s)
      : count_(rows.size()),
        memory_(memory.allocate(static_cast<std::size_t>(rows.size()) * sizeof(std::int32_t))) {
    const std::vector<std::int32_t> positions = positions_of(rows, length);
    upload(s, positions.data(),
           Vector<std::int32_t>(reinterpret_cast<std::int32_t*>(memory_.data()), {count_}));
  }

  // Of each row of a sequence on this rank; negative where it is padding.
  Vector<const std::int32_t> view() const {
    return {reinterpret_cast<const std::int32_t*>(memory_.data()), {count_}};
  }

 private:
  Index count_;
  typename D::allocation memory_;
};

}  // namespace trilith::inline v0
