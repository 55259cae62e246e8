// The __global__ function of a kernel.
//
//   simt::entry<Scale><<<grid, Scale::threads, Scale::shared_bytes, stream>>>(params);
//
// A kernel whose shared_bytes exceed 48 KiB needs cudaFuncAttributeMaxDynamicSharedMemorySize first.
#pragma once

#include <trilith/simt/device_lane.cuh>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

template <kernel K>
__global__ void __launch_bounds__(K::threads, blocks_per_multiprocessor<K>)
    entry(const __grid_constant__ typename K::Params params) {
  DeviceLane lane;
  K{}(lane, params);
}

}  // namespace trilith::inline v0::simt
