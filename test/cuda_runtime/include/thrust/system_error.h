// Thrust's exception, whose code is a status of the runtime: as the standard's, in a category of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <system_error>

namespace thrust {

using std::error_category;
using std::system_error;

inline const error_category& cuda_category() {
  struct Category : error_category {
    const char* name() const noexcept override { return "cuda"; }
    std::string message(int status) const override {
      return cudaGetErrorString(static_cast<cudaError_t>(status));
    }
  };
  static const Category category;
  return category;
}

}  // namespace thrust
