// Device<Cuda>: an NVIDIA GPU. Its parts stand in device/cuda/; device/cuda.cuh brings all of them.
//
// Rank r computes on GPU r mod the number of GPUs, so ranks may share one. Making a rank's Memory or Stream
// makes that GPU the calling thread's; a rank's thread has no other.
#pragma once

#include <concepts>

#include <trilith/core/half.hpp>
#include <trilith/device/cuda/check.cuh>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

struct Cuda {
  class Stream;
  class Event;
  class Memory;
  class Allocation;

  using stream = Stream;
  using memory = Memory;
  using allocation = Allocation;

  static constexpr const char* name = "Cuda";
  template <class Element>
  static constexpr bool computes_with = std::same_as<Element, float> || half<Element>;
};

namespace gpu {

inline int gpu_of(int rank) {
  return rank % count_gpus();
}

// Makes the rank's GPU the calling thread's, and says which it is.
inline int use_gpu_of(int rank) {
  const int gpu = gpu_of(rank);
  use_gpu(gpu);
  return gpu;
}

}  // namespace gpu

}  // namespace trilith::inline v0
