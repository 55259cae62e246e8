// Does not compile: fills on a stream of CUDA's libraries, in a source without the header that has theirs.
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda/elementwise.hpp>

namespace trilith {

void clear(const Cuda::Stream& stream, Vector<float> y) {
  fill(stream, y, 0.0f);
}

}  // namespace trilith
