// Does not compile: a launch on a GPU's stream of what is no kernel.
#include <trilith/core/device_code.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/simt/lane.hpp>

namespace trilith {

struct Mine {
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct Params {};

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane&, const Params&) const {}
};

void launch(const Cuda::Stream& stream) {
  stream.launch(Mine{}, {.x = 1}, {});
}

}  // namespace trilith
