// Runs test kernels on a GPU, for sources that a host compiler compiles.
#pragma once

#include <cstddef>
#include <string>

#include <trilith/simt/lane.hpp>

namespace trilith::test {

// Why there is no GPU to use; empty if there is one.
std::string why_no_device();

// Memory that host and device both reach, of zeros.
void* allocate_managed(std::size_t bytes);
void free_managed(void* memory);

// Launches one of the kernels of device.cu, and waits for it. Throws Error with what CUDA says.
template <simt::kernel K>
void launch_on_device(simt::Dim3 grid, const typename K::Params& params);

}  // namespace trilith::test
