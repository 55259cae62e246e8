// Whether an operation overwrites its result or adds to it. The first microbatch of a step overwrites the
// gradients, the others add to them, so nothing is cleared between steps.
#pragma once

namespace trilith::inline v0 {

enum class Accumulate : bool { no, yes };

}  // namespace trilith::inline v0
