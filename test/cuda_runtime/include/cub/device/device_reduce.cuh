// CUB's reduction of what a function makes of each element: in ascending order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "test/cuda_runtime/machine/enqueue.hpp"

namespace cub {

struct DeviceReduce {
  // Where `scratch` is null, only says how much of it is needed.
  template <class In, class Out, class Reduce, class Transform, class Value>
  static cudaError_t TransformReduce(void* scratch, std::size_t& scratch_bytes, const In* in, Out* out,
                                     std::int64_t count, Reduce reduce, Transform transform, Value initial,
                                     cudaStream_t stream) {
    const auto size = static_cast<std::size_t>(count);
    const std::size_t needed = 1 + size / 1024;
    if (scratch == nullptr) {
      scratch_bytes = needed;
      return cudaSuccess;
    }
    if (scratch_bytes < needed) return cudaErrorInvalidValue;
    return trilith::test::imitation::enqueue("cub::DeviceReduce::TransformReduce", stream,
                                             {{scratch, needed}, {in, size * sizeof(In)}, {out, sizeof(Out)}},
                                             [=] {
                                               std::memset(scratch, 0xFF, needed);  // what was there is lost
                                               Value sum = initial;
                                               for (std::int64_t i = 0; i < count; ++i)
                                                 sum = reduce(sum, transform(in[i]));
                                               *out = sum;
                                             });
  }
};

}  // namespace cub
