// The forward kernels of attention that are in use, for the device: resources_test.sh reads what they take.

#include <trilith/kernels/attention_forward.hpp>
#include <trilith/kernels/hop_carry.hpp>
#include <trilith/simt/entry.cuh>

namespace trilith {

using kernels::HopCarry;

template <half T, int width, HopCarry carry>
using Forward =
    kernels::AttentionForward<T, kernels::attention_forward_tile(kernels::architecture, width), carry>;

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)

#define INSTANTIATE_WIDTH(T, width)               \
  INSTANTIATE(Forward<T, width, HopCarry::none>); \
  INSTANTIATE(Forward<T, width, HopCarry::memory>)

INSTANTIATE_WIDTH(BFloat16, 64);
INSTANTIATE_WIDTH(BFloat16, 128);
INSTANTIATE_WIDTH(BFloat16, 256);
INSTANTIATE_WIDTH(Float16, 64);
INSTANTIATE_WIDTH(Float16, 128);
INSTANTIATE_WIDTH(Float16, 256);

}  // namespace trilith
