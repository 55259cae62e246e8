// Which pairs of queries and keys a hop of attention leaves visible, as a template parameter of its kernels.
#pragma once

namespace trilith::inline v0::kernels {

enum class HopMask {
  intervals,  // each query sees an interval of keys of its own
  rectangle,  // all queries that see any see the same: only the edges of it are masked
};

}  // namespace trilith::inline v0::kernels
