// Reductions over a block, for nvcc: block_reduce_order_test.sh and resources_test.sh look at what it makes
// of them.

#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/warp.hpp>

#include "test/kernels/block_reduce_kernel.hpp"
#include "test/support/assembly.cuh"

namespace trilith::test {

void all_reductions(const Assembly& s) {
  s.launch(ReduceTwice<float, 2, kernels::Sum>{}, {}, {});
  s.launch(ReduceTwice<float, 8, kernels::Maximum>{}, {}, {});
  s.launch(ReduceTwice<double, 16, kernels::Sum>{}, {}, {});
  s.launch(ReduceTwice<kernels::Floats<2>, 8, kernels::Sum>{}, {}, {});
}

}  // namespace trilith::test
