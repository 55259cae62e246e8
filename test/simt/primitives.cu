// Every primitive for the device: instructions_test.sh looks at what nvcc makes of these kernels.

#include <trilith/simt/entry.cuh>

#include "test/simt/primitive_kernels.hpp"
#include "test/simt/tile_product.hpp"

namespace trilith {

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)

INSTANTIATE(test::Ids);
INSTANTIATE(test::Shuffles);
INSTANTIATE(test::Votes);
INSTANTIATE(test::Mma<BFloat16>);
INSTANTIATE(test::Mma<Float16>);
INSTANTIATE(test::Ldmatrix<1, false>);
INSTANTIATE(test::Ldmatrix<2, false>);
INSTANTIATE(test::Ldmatrix<4, false>);
INSTANTIATE(test::Ldmatrix<1, true>);
INSTANTIATE(test::Ldmatrix<2, true>);
INSTANTIATE(test::Ldmatrix<4, true>);
INSTANTIATE(test::Copies);
INSTANTIATE(test::Atomics);
INSTANTIATE(test::Exp2);
INSTANTIATE(test::Reciprocal);
INSTANTIATE(test::Packing<BFloat16>);
INSTANTIATE(test::Packing<Float16>);
INSTANTIATE(test::Vectors);
INSTANTIATE(test::NamedBarriers);
INSTANTIATE(test::TileProduct<BFloat16>);
INSTANTIATE(test::TileProduct<Float16>);

}  // namespace trilith
