// What of a GPU's architecture decides how kernels are cut into tiles.
//
// A kernel's tiles are template arguments, so a launch and all its machine codes must agree on them: they
// suit the least architecture that a source is compiled for. To have tiles of sm_90, compile for it and later
// ones only.
#pragma once

namespace trilith::inline v0::kernels {

// As in sm_90: 80, 90, 100. The emulator is an 80.
inline constexpr int architecture = [] {
#if defined(__CUDA_ARCH_LIST__)
  constexpr int ascending[] = {__CUDA_ARCH_LIST__};
  return ascending[0] / 10;
#else
  return 80;
#endif
}();

// KiB of shared memory that all blocks of a multiprocessor have together; each takes 1 KiB besides its own.
// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr int shared_kib_of_multiprocessor(int sm) {
  if (sm >= 90 && sm < 120) return 228;
  return sm == 80 || sm == 87 ? 164 : 100;
}

}  // namespace trilith::inline v0::kernels
