// The GPU's tests of Device<Cuda>, and of its memory what depends on who comes first.
#include <cstdint>
#include <vector>

#include "test/cuda_runtime/machine/machine.hpp"
#include "test/device/cuda_test.cu"

namespace trilith::test {
namespace {

// The tests of a GPU have a kernel that takes long; here a kernel is late, under some seeds.
TEST_F(CudaMemory, IsKeptUntilTheWorkThatWasGivenIsDone) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    imitation::plug_in({.seed = seed});
    Cuda::Memory memory(place);
    const Cuda::Stream stream(place);
    {
      const GpuVector<float> x(memory, stream, std::vector<float>(64, 1.0f));
      stream.launch(Recurrence{}, {}, {{x.data(), 64}, 2.0f, 1});
    }
    stream.synchronize();
    ASSERT_EQ(imitation::fault(), "") << "with seed " << seed;
  }
}

}  // namespace
}  // namespace trilith::test
