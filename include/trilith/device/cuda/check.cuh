// Throws the statuses of the CUDA runtime, and makes a GPU the current one for a while.
#pragma once

#include <cuda_runtime_api.h>

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

// Makes `gpu` the calling thread's while this object lives.
class OnGpu {
 public:
  explicit OnGpu(int gpu) : before_(current_gpu()), changed_(gpu != before_) {
    if (changed_) use_gpu(gpu);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() {
    if (changed_) ignore(cudaSetDevice(before_));
  }

 private:
  int before_;
  bool changed_;
};

}  // namespace trilith::inline v0::gpu
