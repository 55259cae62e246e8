// A stream that runs kernels: the GPU's, and the emulator's. Operations made of kernels are written once for
// all of these, in ops/cuda/*.hpp.
#pragma once

#include <concepts>
#include <cstddef>

#include <trilith/core/device_code.hpp>
#include <trilith/device/device.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0 {

namespace detail {

// Stands for any kernel.
struct AnyKernel {
  static constexpr const char* name = "any";
  static constexpr int threads = simt::warp_size;
  static constexpr int shared_bytes = 0;
  struct Params {};

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane&, const Params&) const {}
};

}  // namespace detail

// launch(kernel, grid, params) enqueues kernel(lane, params) for every lane of every block of the grid.
// scratch(bytes) is memory, aligned to 64 bytes, for what an operation's launches leave to each other; the
// next call may give the same.
template <class S>
concept kernel_stream = std::derived_from<S, ops::Stream> &&
    requires(const S& stream, detail::AnyKernel kernel, simt::Dim3 grid, detail::AnyKernel::Params params,
             std::size_t bytes) {
  stream.launch(kernel, grid, params);
  { stream.scratch(bytes) } -> std::same_as<void*>;
};

// One that says `static constexpr bool has_libraries = true`: CUDA's libraries compute on it. An operation
// that they have is theirs there (ops/cuda/*.cuh), whatever else a source includes.
template <class S>
concept library_stream = kernel_stream<S> && requires {
  requires S::has_libraries;
};

}  // namespace trilith::inline v0
