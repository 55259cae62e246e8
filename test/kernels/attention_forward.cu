// Attention in 16 bits, forward, for nvcc: resources_test.sh looks at what it makes of the kernels.

#include <trilith/ops/cuda/attention.hpp>

#include "test/support/assembly.cuh"

namespace trilith::test {

template <half T>
void operations(const Assembly& s) {
  using In = View<const T, 4>;
  ops::attention(s, In(), In(), In(), {}, {}, ops::Hop(), {}, View<T, 4>(), View<float, 3>());
}

template void operations<BFloat16>(const Assembly&);
template void operations<Float16>(const Assembly&);

}  // namespace trilith::test
