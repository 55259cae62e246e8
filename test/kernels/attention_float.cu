// The float32 kernels of attention, for the device.

#include <trilith/kernels/attention_backward_float.hpp>
#include <trilith/kernels/attention_forward_float.hpp>
#include <trilith/simt/entry.cuh>

namespace trilith {

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)

#define INSTANTIATE_WIDTH(width)                              \
  INSTANTIATE(kernels::AttentionForwardFloat<width>);         \
  INSTANTIATE(kernels::AttentionBackwardQueriesFloat<width>); \
  INSTANTIATE(kernels::AttentionBackwardKeysFloat<width>)

INSTANTIATE_WIDTH(64);
INSTANTIATE_WIDTH(128);
INSTANTIATE_WIDTH(256);
INSTANTIATE(kernels::AttentionDeltaFloat);

}  // namespace trilith
