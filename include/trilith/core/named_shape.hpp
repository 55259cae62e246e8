// What a tensor is called in files, and its whole shape.
#pragma once

#include <string>
#include <vector>

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

struct NamedShape {
  std::string name;
  std::vector<Index> shape;
  friend bool operator==(const NamedShape&, const NamedShape&) = default;
};

}  // namespace trilith::inline v0
