// The benchmark of kernels whose time is that of moving their operands.
#pragma once

#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

// Proves and, unless `small`, times each kernel in bf16, after the copy that is their limit.
void measure_memory_bound(bool small, Results& results);

}  // namespace trilith::bench
