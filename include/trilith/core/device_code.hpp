// Functions that run inside a kernel.
//
// A source that nvcc compiles has them for the device; one that a host compiler compiles, for the emulator.
// So a kernel's two instantiations, by its lane, come from two sources: a `.cu` and a `.cc`.
//
//   TRILITH_DEVICE       what only kernels call
//   TRILITH_HOST_DEVICE  what hosts call too
//   TRILITH_UNROLL       before a loop that must be unrolled, so that arrays it indexes stay in registers
#pragma once

#if __cplusplus < 202002L
#error "Trilith needs C++20: compile with -std=c++20"
#endif

#if defined(__CUDACC__)
#define TRILITH_DEVICE __device__ __forceinline__
#define TRILITH_HOST_DEVICE __host__ __device__ __forceinline__
#define TRILITH_UNROLL _Pragma("unroll")
#else
#define TRILITH_DEVICE inline
#define TRILITH_HOST_DEVICE inline
#define TRILITH_UNROLL
#endif
