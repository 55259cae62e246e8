// What attention is told besides its tensors, on any device.
#pragma once

namespace trilith::inline v0::ops {

// Which keys a query sees: all, or those with key ≤ query + keys − queries, so that the last query sees every
// key. A query that sees none has out 0, lse −∞ and no gradients.
enum class Mask { full, causal };

}  // namespace trilith::inline v0::ops
