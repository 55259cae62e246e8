// What CUB and Thrust do over a whole vector. Including them takes a compiler seconds.
#pragma once

#include <cub/device/device_reduce.cuh>
#include <cuda_runtime_api.h>
#include <thrust/execution_policy.h>
#include <thrust/fill.h>
#include <thrust/system_error.h>

#include <cstddef>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda/check.cuh>
#include <trilith/device/cuda/stream.cuh>

namespace trilith::inline v0::ops {

namespace detail {

struct Square {
  TRILITH_HOST_DEVICE double operator()(float x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};
struct Plus {
  TRILITH_HOST_DEVICE double operator()(double a, double b) const { return a + b; }
};

}  // namespace detail

// sum(0) = Σ x² in float64, in an order that repeats from run to run. No square of a float overflows a
// double, so the sum is finite exactly where all of x is.
inline void sum_of_squares(const Cuda::Stream& stream, Vector<const float> x, Vector<double> sum) {
  const auto reduce = [&](void* scratch, std::size_t& bytes) {
    gpu::check(cub::DeviceReduce::TransformReduce(scratch, bytes, x.data(), sum.data(), x.size(),
                                                  detail::Plus{}, detail::Square{}, 0.0, stream.get()),
               "cub::DeviceReduce::TransformReduce");
  };
  std::size_t bytes = 0;
  reduce(nullptr, bytes);
  reduce(stream.scratch(bytes), bytes);
}

// y = value: the only fill of this stream, as ops/cuda/elementwise.hpp says.
template <class T>
void fill(const Cuda::Stream& stream, Vector<T> y, float value) {
  try {
    thrust::fill_n(thrust::cuda::par_nosync.on(stream.get()), y.data(), y.size(), static_cast<T>(value));
  } catch (const thrust::system_error& error) {
    gpu::check(static_cast<cudaError_t>(error.code().value()), "thrust::fill_n");
    throw;
  }
}

}  // namespace trilith::inline v0::ops
