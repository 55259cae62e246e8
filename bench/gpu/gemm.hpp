// The limit of what multiplies matrices.
#pragma once

#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

inline constexpr const char* gemm_limit = "GEMM";

// FLOP/s of cuBLASLt's product of 8192 × 8192 × 8192 random numbers in bf16, which is added to the results.
// Part of the product is proved first.
double gemm_rate(Results& results);

}  // namespace trilith::bench
