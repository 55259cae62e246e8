// Throws the statuses of cuBLASLt. Needs its library to link.
#pragma once

#include <cublasLt.h>

#include <trilith/device/cuda/error.hpp>

namespace trilith::inline v0::gpu {

// Throws Error unless the call has succeeded.
inline void check(cublasStatus_t status, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw failure(call, cublasLtGetStatusName(status), cublasLtGetStatusString(status), file, line);
}

}  // namespace trilith::inline v0::gpu
