// What the runtime has for C++: launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "test/cuda_runtime/machine/enqueue.hpp"

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

template <class Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters), cudaFuncAttribute attribute, int value) {
  return trilith::test::imitation::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

// The kernel is one of simt/entry.cuh.
template <class Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters),
                               const std::type_identity_t<Parameters>& params) {
  static_assert(std::is_trivially_copyable_v<Parameters>);
  namespace imitation = trilith::test::imitation;
  // What lay before where `params` has padding may look like an address.
  Parameters members = params;
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&members);
#endif
  return imitation::launch(
      {reinterpret_cast<const void*>(kernel), config->gridDim, config->blockDim, config->dynamicSmemBytes},
      imitation::words_of(&members, sizeof(members)), [kernel, params] { kernel(params); }, config->stream);
}
