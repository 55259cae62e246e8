// The forward kernels of attention that are in use, for the device: resources_test.sh reads what they take.

#include <trilith/kernels/attention_forward.hpp>
#include <trilith/simt/entry.cuh>

namespace trilith {

template <half T, int width>
using Forward =
    kernels::AttentionForward<T, kernels::attention_forward_tile(kernels::architecture, width)>;

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)

INSTANTIATE(Forward<BFloat16, 64>);
INSTANTIATE(Forward<BFloat16, 128>);
INSTANTIATE(Forward<BFloat16, 256>);
INSTANTIATE(Forward<Float16, 64>);
INSTANTIATE(Forward<Float16, 128>);
INSTANTIATE(Forward<Float16, 256>);

}  // namespace trilith
