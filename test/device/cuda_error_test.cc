// The texts of errors from CUDA's libraries.
#include <gtest/gtest.h>

#include <trilith/device/cuda/error.hpp>

namespace trilith {
namespace {

TEST(CudaError, NamesTheCallItsPlaceTheMeaningAndWhatToDo) {
  const Error error = gpu::failure("cudaMalloc", "cudaErrorMemoryAllocation", "out of memory",
                                   "include/trilith/device/cuda/memory.cuh", 42);
  EXPECT_STREQ(error.what(),
               "cudaMalloc (memory.cuh:42): out of memory, cudaErrorMemoryAllocation; use a smaller model, "
               "batch or sequence, or more ranks on more GPUs");
}

TEST(CudaError, TakesTheRankFromTheWorld) {
  const Error error = gpu::failure("scale", "cudaErrorInvalidConfiguration", "invalid configuration argument",
                                   "stream.cuh", 7)
                          .at("rank 3");
  EXPECT_STREQ(error.what(),
               "rank 3: scale (stream.cuh:7): invalid configuration argument, cudaErrorInvalidConfiguration");
}

TEST(CudaError, SaysForWhichGpuToCompile) {
  EXPECT_NE(gpu::remedy("cudaErrorNoKernelImageForDevice").find("cuda_architectures"), std::string::npos);
  EXPECT_EQ(gpu::remedy("cudaErrorInvalidValue"), "");
}

}  // namespace
}  // namespace trilith
