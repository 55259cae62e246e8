// A world whose ranks are threads of this process and compute on GPUs: rank r on GPU r mod their number, so
// that several may share one.
#pragma once

#include <trilith/comm/cuda/carrier.cuh>
#include <trilith/comm/thread_communicator.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/comm/world.hpp>
#include <trilith/device/cuda.cuh>

namespace trilith::inline v0 {

using CudaThreadCommunicator = BasicThreadCommunicator<CudaCarrier>;
using CudaThreadRank = BasicThreadRank<CudaThreadCommunicator>;
using CudaThreadWorld = BasicThreadWorld<CudaThreadCommunicator>;

static_assert(communicator<CudaThreadCommunicator>);
static_assert(world<CudaThreadWorld>);

template <>
struct ThreadWorldOf<Cuda> {
  using type = CudaThreadWorld;
};

}  // namespace trilith::inline v0
