// The errors of CUDA's libraries as this library's: which call, where it stands, what its status means and
// what to do about it. The rank is added by the world, as to every error.
//
// The namespace is not `cuda`, which the toolkit's own would make ambiguous where trilith's is used whole.
#pragma once

#include <string>
#include <string_view>

#include <trilith/core/error.hpp>

namespace trilith::inline v0::gpu {

// What helps against a status, by its name; empty where nothing in particular does.
inline std::string remedy(std::string_view status) {
  struct Remedy {
    std::string_view status;
    const char* text;
  };
  constexpr const char* no_memory = "use a smaller model, batch or sequence, or more ranks on more GPUs";
  constexpr const char* broken =
      "run the program under compute-sanitizer: an earlier kernel went wrong, and this GPU serves it no more";
  constexpr Remedy remedies[] = {
      {"cudaErrorMemoryAllocation", no_memory},
      {"CUBLAS_STATUS_ALLOC_FAILED", no_memory},
      {"cudaErrorInsufficientDriver", "install an NVIDIA driver that is as new as the CUDA Toolkit"},
      {"cudaErrorNoDevice", "run on a machine with an NVIDIA GPU, or use Device<Host>"},
      {"cudaErrorNoKernelImageForDevice",
       "compile for this GPU: --@trilith//bazel:cuda_architectures, or nvcc's -arch"},
      {"CUBLAS_STATUS_ARCH_MISMATCH", "use a GPU of compute capability 8.0 or above"},
      {"cudaErrorIllegalAddress", broken},
      {"cudaErrorMisalignedAddress", broken},
      {"cudaErrorLaunchFailure", broken},
      {"CUBLAS_STATUS_EXECUTION_FAILED", broken},
      {"cudaErrorLaunchOutOfResources", "give the kernel fewer threads or less shared memory"},
      {"cudaErrorPeerAccessUnsupported",
       "put the ranks on GPUs that can read each other's memory, or on one"},
  };
  for (const Remedy& each : remedies) {
    if (each.status == status) return each.text;
  }
  return "";
}

// `call` at `file`:`line` has returned `status`, which means `meaning`.
inline Error failure(std::string_view call, std::string_view status, std::string_view meaning,
                     std::string_view file, int line) {
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  std::string text(call);
  text.append(" (").append(file).append(":").append(std::to_string(line)).append("): ");
  text.append(meaning).append(", ").append(status);
  return Error(text, remedy(status));
}

}  // namespace trilith::inline v0::gpu
