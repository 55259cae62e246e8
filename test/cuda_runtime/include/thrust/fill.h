// Thrust's fill_n.
#pragma once

#include <cuda_runtime_api.h>
#include <thrust/execution_policy.h>
#include <thrust/system_error.h>

#include <algorithm>
#include <cstddef>

#include "test/cuda_runtime/machine/enqueue.hpp"

namespace thrust {

// Throws where the stream does not take it, as Thrust does.
template <class T, class Size, class Value>
void fill_n(const cuda::Policy& policy, T* first, Size count, const Value& value) {
  const cudaError_t status = trilith::test::imitation::enqueue(
      "thrust::fill_n", policy.stream, {{first, static_cast<std::size_t>(count) * sizeof(T)}},
      [=] { std::fill_n(first, count, static_cast<T>(value)); });
  if (status != cudaSuccess) throw system_error(status, cuda_category(), cudaGetErrorString(status));
}

}  // namespace thrust
