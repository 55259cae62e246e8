// Memory that a stream's work uses within an operation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include <trilith/device/cuda/check.cuh>

namespace trilith::inline v0::gpu {

// A stream's own, and as much as was ever asked for.
class Scratch {
 public:
  explicit Scratch(cudaStream_t stream) : stream_(stream) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }

  void* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      release();
      check(cudaMallocAsync(&memory_, bytes, stream_), "cudaMallocAsync");
      bytes_ = bytes;
    }
    return memory_;
  }

 private:
  void release() {
    if (memory_ != nullptr) ignore(cudaFreeAsync(memory_, stream_));
    memory_ = nullptr;
    bytes_ = 0;
  }

  cudaStream_t stream_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trilith::inline v0::gpu
