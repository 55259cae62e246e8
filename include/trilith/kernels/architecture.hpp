// What of a GPU's architecture decides how kernels are cut into tiles.
//
// A kernel's tiles are template arguments, so a launch and all its machine codes must agree on them: they
// suit the least architecture that a source is compiled for. To have tiles of sm_90, compile for it and later
// ones only.
#pragma once

#include <algorithm>

namespace trilith::inline v0::kernels {

// As in sm_90: 80, 90, 100. The emulator is an 80, unless a test gives it a list of its own.
inline constexpr int architecture = [] {
#if defined(__CUDA_ARCH_LIST__)
  constexpr int ascending[] = {__CUDA_ARCH_LIST__};
  return ascending[0] / 10;
#else
  return 80;
#endif
}();
static_assert(architecture >= 80,
              "CUDA: kernels need a GPU of compute capability 8.0 or above: compile for one, as by nvcc's "
              "-arch=sm_90; without it nvcc compiles for an older one");

// KiB of shared memory that all blocks of a multiprocessor have together; each takes 1 KiB besides its own.
// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr int shared_kib_of_multiprocessor(int sm) {
  if (sm >= 90 && sm < 120) return 228;
  return sm == 80 || sm == 87 ? 164 : 100;
}

// Blocks that a multiprocessor holds where each thread may have all the registers that it can, 255, and each
// block this shared memory.
constexpr int blocks_of_all_registers(int threads, int shared_bytes) {
  const int by_registers = 65536 / (256 * threads);
  const int by_shared_memory = shared_kib_of_multiprocessor(architecture) * 1024 / (shared_bytes + 1024);
  return std::max(1, std::min(by_registers, by_shared_memory));
}

}  // namespace trilith::inline v0::kernels
