// Device<Cuda>, whole: memory, streams, events. Needs nvcc; operations are in ops/cuda/.
#pragma once

#include <trilith/device/cuda/device.cuh>
#include <trilith/device/cuda/memory.cuh>
#include <trilith/device/cuda/stream.cuh>
#include <trilith/device/device.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/device/side_stream.hpp>

namespace trilith::inline v0 {

static_assert(device<Cuda>);
static_assert(library_stream<Cuda::Stream> && branching_stream<Cuda::Stream>);

}  // namespace trilith::inline v0
