// The backward kernels of attention that are in use, for the device: resources_test.sh reads what they take.

#include <trilith/kernels/attention_backward_keys.hpp>
#include <trilith/kernels/attention_backward_queries.hpp>
#include <trilith/kernels/attention_delta.hpp>
#include <trilith/kernels/attention_sinks_backward.hpp>
#include <trilith/kernels/hop_carry.hpp>
#include <trilith/simt/entry.cuh>

namespace trilith {

using kernels::HopCarry;

template <half T, class G, int width, bool adds_dq>
using BackwardKeys = kernels::AttentionBackwardKeys<
    T, G, kernels::attention_backward_keys_tile(kernels::architecture, width, adds_dq)>;
template <half T, int width, HopCarry carry>
using BackwardQueries = kernels::AttentionBackwardQueries<
    T, kernels::attention_backward_queries_tile(kernels::architecture, width), carry>;

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)

#define INSTANTIATE_WIDTH(T, width)                         \
  INSTANTIATE(BackwardKeys<T, float, width, false>);        \
  INSTANTIATE(BackwardKeys<T, T, width, false>);            \
  INSTANTIATE(BackwardKeys<T, float, width, true>);         \
  INSTANTIATE(BackwardKeys<T, T, width, true>);             \
  INSTANTIATE(BackwardQueries<T, width, HopCarry::none>);   \
  INSTANTIATE(BackwardQueries<T, width, HopCarry::memory>); \
  INSTANTIATE(kernels::AttentionDelta<T, width>)

INSTANTIATE_WIDTH(BFloat16, 64);
INSTANTIATE_WIDTH(BFloat16, 128);
INSTANTIATE_WIDTH(BFloat16, 256);
INSTANTIATE_WIDTH(Float16, 64);
INSTANTIATE_WIDTH(Float16, 128);
INSTANTIATE_WIDTH(Float16, 256);
INSTANTIATE(kernels::AttentionSinksBackward);

}  // namespace trilith
