// Tests that need a GPU: they skip where none answers; with TRILITH_REQUIRE_GPU set (--config=gpu) they fail.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda/transfer.cuh>

namespace trilith::test {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return;
    const char* const why = status == cudaSuccess ? "no CUDA device" : cudaGetErrorString(status);
    if (std::getenv("TRILITH_REQUIRE_GPU") != nullptr) {
      FAIL() << "no GPU: " << why;
    } else {
      GTEST_SKIP() << "no GPU: " << why;
    }
  }
};

// Elements in a GPU's memory.
template <class T>
class GpuVector {
 public:
  GpuVector(Cuda::Memory& memory, Index size)
      : size_(size), allocation_(memory.allocate(static_cast<std::size_t>(size) * sizeof(T))) {}
  GpuVector(Cuda::Memory& memory, const Cuda::Stream& stream, const std::vector<T>& values)
      : GpuVector(memory, static_cast<Index>(values.size())) {
    upload(stream, values.data(), view());
  }

  T* data() const { return reinterpret_cast<T*>(allocation_.data()); }
  Vector<T> view() const { return {data(), {size_}}; }
  Vector<const T> const_view() const { return view(); }

  // When the work given to the stream so far is done.
  std::vector<T> values(const Cuda::Stream& stream) const {
    std::vector<T> result(static_cast<std::size_t>(size_));
    download(stream, const_view(), result.data());
    return result;
  }

 private:
  Index size_;
  Cuda::Allocation allocation_;
};

}  // namespace trilith::test
