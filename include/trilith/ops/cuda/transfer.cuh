// Copies between a GPU's memory and this program's.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda/check.cuh>
#include <trilith/device/cuda/stream.cuh>

namespace trilith::inline v0::ops {

namespace detail {

// Memory that a stream reads by itself: ordinary memory is copied there first, so that it may be reused while
// the stream has yet to read. Two halves, in turn.
class Staging {
 public:
  explicit Staging(cudaStream_t stream) : stream_(stream) {
    gpu::check(cudaMallocHost(&memory_, 2 * half), "cudaMallocHost");
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    gpu::ignore(cudaStreamSynchronize(stream_));
    gpu::ignore(cudaFreeHost(memory_));
  }

  void upload(const void* host, void* device, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += half) {
      const std::size_t length = std::min(half, bytes - done);
      std::byte* const place = static_cast<std::byte*>(memory_) + turn_ * half;
      const Cuda::Event& read = read_[turn_];
      read.synchronize();
      std::memcpy(place, static_cast<const std::byte*>(host) + done, length);
      gpu::check(cudaMemcpyAsync(static_cast<std::byte*>(device) + done, place, length,
                                 cudaMemcpyHostToDevice, stream_),
                 "cudaMemcpyAsync");
      gpu::check(cudaEventRecord(read.get(), stream_), "cudaEventRecord");
      turn_ = 1 - turn_;
    }
  }

 private:
  static constexpr std::size_t half = std::size_t{1} << 20;

  cudaStream_t stream_;
  void* memory_ = nullptr;
  std::array<Cuda::Event, 2> read_;  // of each half: the last copy from it
  std::size_t turn_ = 0;
};

}  // namespace detail

// device = host. Both are contiguous; `host` may be reused when the call returns.
template <class T>
void upload(const Cuda::Stream& stream, const T* host, Vector<T> device) {
  static_assert(std::is_trivially_copyable_v<T>);
  stream.kept<detail::Staging>().upload(host, device.data(),
                                        static_cast<std::size_t>(device.size()) * sizeof(T));
}

// host = device, when the work given to the stream so far is done; returns then.
template <class T>
void download(const Cuda::Stream& stream, Vector<const T> device, T* host) {
  static_assert(std::is_trivially_copyable_v<T>);
  gpu::check(cudaMemcpyAsync(host, device.data(), static_cast<std::size_t>(device.size()) * sizeof(T),
                             cudaMemcpyDeviceToHost, stream.get()),
             "cudaMemcpyAsync");
  stream.synchronize();
}

}  // namespace trilith::inline v0::ops
