#include <cstring>

#include <trilith/core/error.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/entry.cuh>

#include "test/kernels/block_reduce_kernel.hpp"
#include "test/simt/device.hpp"
#include "test/simt/primitive_kernels.hpp"
#include "test/simt/tile_product.hpp"

namespace trilith::test {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Error(std::string(what) + ": " + cudaGetErrorString(status), "");
}

}  // namespace

std::string why_no_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count == 0 ? "no CUDA device" : "";
}

void* allocate_managed(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocManaged(&memory, bytes), "cudaMallocManaged");
  std::memset(memory, 0, bytes);
  return memory;
}

void free_managed(void* memory) {
  cudaFree(memory);
}

template <simt::kernel K>
void launch_on_device(simt::Dim3 grid, const typename K::Params& params) {
  simt::entry<K><<<dim3(grid.x, grid.y, grid.z), K::threads, K::shared_bytes>>>(params);
  check(cudaGetLastError(), K::name);
  check(cudaDeviceSynchronize(), K::name);
}

#define INSTANTIATE(...) template void launch_on_device<__VA_ARGS__>(simt::Dim3, const __VA_ARGS__::Params&)

INSTANTIATE(Ids);
INSTANTIATE(Shuffles);
INSTANTIATE(Votes);
INSTANTIATE(Mma<BFloat16>);
INSTANTIATE(Mma<Float16>);
INSTANTIATE(Ldmatrix<1, false>);
INSTANTIATE(Ldmatrix<2, false>);
INSTANTIATE(Ldmatrix<4, false>);
INSTANTIATE(Ldmatrix<1, true>);
INSTANTIATE(Ldmatrix<2, true>);
INSTANTIATE(Ldmatrix<4, true>);
INSTANTIATE(Copies);
INSTANTIATE(Atomics);
INSTANTIATE(Exp2);
INSTANTIATE(Reciprocal);
INSTANTIATE(Packing<BFloat16>);
INSTANTIATE(Packing<Float16>);
INSTANTIATE(Vectors);
INSTANTIATE(NamedBarriers);
INSTANTIATE(TileProduct<BFloat16>);
INSTANTIATE(TileProduct<Float16>);
INSTANTIATE(ReduceTwice<float, 1, kernels::Sum>);
INSTANTIATE(ReduceTwice<float, 8, kernels::Sum>);
INSTANTIATE(ReduceTwice<float, 8, kernels::Maximum>);
INSTANTIATE(ReduceTwice<double, 16, kernels::Sum>);
INSTANTIATE(ReduceTwice<kernels::Floats<2>, 2, kernels::Sum>);

}  // namespace trilith::test
