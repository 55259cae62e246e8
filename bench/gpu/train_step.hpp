// The benchmark of a step of training on a GPU.
#pragma once

#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

// Trains GPTs in bf16 on one batch, which must lower its loss, and times the steps; `small`: one small GPT,
// not timed.
void measure_training(bool small, Results& results);

}  // namespace trilith::bench
