// Device<Cuda> with its operations, and the world of ranks that are threads on GPUs, beside what trilith.hpp
// brings. Needs nvcc, and cuBLASLt to link (`//bazel/system:cublas_lt`).
#pragma once

#include <trilith/comm/cuda/thread_world.cuh>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda.cuh>
