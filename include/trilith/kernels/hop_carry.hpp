// What a hop of attention begins with and leaves, as a template parameter of its kernels.
#pragma once

namespace trilith::inline v0::kernels {

enum class HopCarry {
  none,    // there is one hop, which has all keys
  memory,  // float32 in memory: every hop but the first goes on from it, every one but the last leaves it
};

}  // namespace trilith::inline v0::kernels
