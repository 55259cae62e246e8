// Throws the statuses of the CUDA runtime, and does something on another GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include <trilith/device/cuda/error.hpp>

namespace trilith::inline v0::gpu {

// Throws Error unless the call has succeeded. An error of earlier work on the GPU shows in any call after it.
inline void check(cudaError_t status, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // it has been seen
  throw failure(call, cudaGetErrorName(status), cudaGetErrorString(status), file, line);
}

// For destructors: an error shows in the next call that is checked, or there is none.
inline void ignore(cudaError_t) {}

// The number of GPUs, at least one.
inline int count_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

// Makes `gpu` the calling thread's current one, until another is chosen.
inline void use_gpu(int gpu) {
  check(cudaSetDevice(gpu), "cudaSetDevice");
}

inline int current_gpu() {
  int gpu = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  return gpu;
}

// body() on `gpu`, which is the calling thread's meanwhile. What body throws is thrown on, whether or not the
// GPU before can be gone back to; where that alone fails, it is thrown.
template <class Body>
auto on_gpu(int gpu, const Body& body) {
  const int before = current_gpu();
  if (gpu == before) return body();
  use_gpu(gpu);
  const auto there = [&] {
    try {
      return body();
    } catch (...) {
      ignore(cudaSetDevice(before));
      throw;
    }
  };
  if constexpr (std::is_void_v<std::invoke_result_t<const Body&>>) {
    there();
    use_gpu(before);
  } else {
    auto result = there();
    use_gpu(before);
    return result;
  }
}

}  // namespace trilith::inline v0::gpu
