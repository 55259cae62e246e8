// Which pairs of queries and keys a hop of attention leaves visible, as a template parameter of its kernels.
#pragma once

namespace trilith::inline v0::kernels {

enum class HopMask {
  intervals,  // each query sees an interval of keys of its own
  rectangle,  // some queries in a row see the same interval, all others nothing
};

}  // namespace trilith::inline v0::kernels
