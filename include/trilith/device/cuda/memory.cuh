// A rank's memory on its GPU: pieces of a pool of its own, counted.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/device/cuda/check.cuh>
#include <trilith/device/cuda/device.cuh>
#include <trilith/device/cuda/stream.cuh>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

namespace gpu {

struct DestroyPool {
  void operator()(cudaMemPool_t pool) const { ignore(cudaMemPoolDestroy(pool)); }
};
using PoolHandle = std::unique_ptr<std::remove_pointer_t<cudaMemPool_t>, DestroyPool>;

// A pool of a GPU's memory that every GPU which can read it may read and write.
inline PoolHandle make_pool(int gpu) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = gpu};
  cudaMemPool_t made = nullptr;
  check(cudaMemPoolCreate(&made, &properties), "cudaMemPoolCreate");
  PoolHandle pool(made);

  std::vector<cudaMemAccessDesc> readers;
  for (int other = 0; other < count_gpus(); ++other) {
    int can_access = 0;
    if (other != gpu) check(cudaDeviceCanAccessPeer(&can_access, other, gpu), "cudaDeviceCanAccessPeer");
    if (can_access == 0) continue;
    readers.push_back({.location = {.type = cudaMemLocationTypeDevice, .id = other},
                       .flags = cudaMemAccessFlagsProtReadWrite});
  }
  if (!readers.empty()) {
    check(cudaMemPoolSetAccess(pool.get(), readers.data(), readers.size()), "cudaMemPoolSetAccess");
  }
  return pool;
}

}  // namespace gpu

// Used by one thread at a time; counts may be read by any.
class Cuda::Memory {
 public:
  // On the rank's GPU, which becomes the calling thread's.
  explicit Memory(const Place& place) : poison_(place.poison), gpu_(gpu::use_gpu_of(place.rank)) {
    pool_ = gpu::make_pool(gpu_);
    order_ = gpu::make_stream();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Uninitialised, for any stream at once, aligned to 256 bytes. Throws Error where the GPU has too little.
  [[nodiscard]] Allocation allocate(std::size_t bytes);

  std::size_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  std::size_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }

 private:
  friend class Allocation;

  // Throws what cudaMallocFromPoolAsync has answered, with what the GPU has left.
  [[noreturn]] void refuse(std::size_t bytes, cudaError_t status) const;
  void release(std::byte* data, std::size_t bytes);

  bool poison_;
  int gpu_;
  gpu::PoolHandle pool_;
  gpu::StreamHandle order_;  // of giving and taking back
  std::atomic<std::size_t> in_use_ = 0;
  std::atomic<std::size_t> peak_ = 0;
};

// Owns a piece of a Memory, which must outlive it. Dropping it waits for the work given to the GPU so far.
class Cuda::Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Allocation() {
    if (data_ != nullptr) memory_->release(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  friend class Memory;

  void swap(Allocation& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Memory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

inline Cuda::Allocation Cuda::Memory::allocate(std::size_t bytes) {
  constexpr std::size_t unit = 256;
  constexpr std::size_t most = std::size_t{1} << 62;
  const std::size_t whole = round_up(std::clamp<std::size_t>(bytes, 1, most), unit);
  void* data = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&data, whole, pool_.get(), order_.get());
  if (status != cudaSuccess) refuse(whole, status);
  Allocation allocation;
  allocation.memory_ = this;
  allocation.data_ = static_cast<std::byte*>(data);
  allocation.bytes_ = whole;
  const std::size_t now = in_use_.fetch_add(whole) + whole;
  peak_.store(std::max(peak_.load(), now));
  if (poison_) gpu::check(cudaMemsetAsync(data, 0xFF, whole, order_.get()), "cudaMemsetAsync");
  gpu::check(cudaStreamSynchronize(order_.get()), "cudaStreamSynchronize");
  return allocation;
}

inline void Cuda::Memory::refuse(std::size_t bytes, cudaError_t status) const {
  static_cast<void>(cudaGetLastError());
  std::size_t left = 0;
  std::size_t all = 0;
  if (status != cudaErrorMemoryAllocation || cudaMemGetInfo(&left, &all) != cudaSuccess) {
    gpu::check(status, "cudaMallocFromPoolAsync");
  }
  throw Error("cannot allocate " + std::to_string(bytes) + " bytes on GPU " + std::to_string(gpu_) +
                  ": this rank has " + std::to_string(bytes_in_use()) + ", and " + std::to_string(left) +
                  " of its " + std::to_string(all) + " are left",
              gpu::remedy("cudaErrorMemoryAllocation"));
}

// Work on any stream may still touch it, so the whole GPU is waited for. Errors show in the next call that is
// checked.
inline void Cuda::Memory::release(std::byte* data, std::size_t bytes) {
  int before = gpu_;
  gpu::ignore(cudaGetDevice(&before));
  if (before != gpu_) gpu::ignore(cudaSetDevice(gpu_));
  gpu::ignore(cudaDeviceSynchronize());
  gpu::ignore(cudaFreeAsync(data, order_.get()));
  if (before != gpu_) gpu::ignore(cudaSetDevice(before));
  in_use_.fetch_sub(bytes);
}

}  // namespace trilith::inline v0
