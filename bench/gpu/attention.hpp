// The attention benchmark of one element type. One source each compiles them, side by side.
#pragma once

#include <vector>

#include <trilith/core/half.hpp>

#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

// Forward and backward for every head dimension and mask, at each sequence length, proved and timed. `limit`
// is the rate of matrix products, in FLOP/s.
void time_attention(BFloat16 element, const std::vector<int>& sequences, double limit, Results& results);
void time_attention(Float16 element, const std::vector<int>& sequences, double limit, Results& results);

// The same at small shapes, proved only.
void prove_attention(BFloat16 element);
void prove_attention(Float16 element);

}  // namespace trilith::bench
