// The norms' kernels for nvcc.

#include <trilith/kernels/column_sums.hpp>
#include <trilith/kernels/norm.hpp>
#include <trilith/kernels/norm_backward.hpp>
#include <trilith/simt/entry.cuh>

namespace trilith {

using kernels::NormKind;

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)
#define INSTANTIATE_NORM(KERNEL, KIND, T, WIDTH)                                                                 \
  INSTANTIATE(KERNEL<KIND, T, kernels::RowTeam{.threads = 32, .width = WIDTH, .packs = 32 / WIDTH}>);  \
  INSTANTIATE(KERNEL<KIND, T, kernels::RowTeam{.threads = 256, .width = WIDTH, .packs = 32 / WIDTH}>); \
  INSTANTIATE(KERNEL<KIND, T, kernels::RowTeam{.threads = 256, .width = WIDTH}>);                      \
  INSTANTIATE(KERNEL<KIND, T, kernels::RowTeam{.threads = 256}>)
#define INSTANTIATE_ALL(KIND, T, WIDTH)                           \
  INSTANTIATE_NORM(kernels::Norm, KIND, T, WIDTH);                                     \
  INSTANTIATE_NORM(kernels::NormBackward, KIND, T, WIDTH);                             \
  INSTANTIATE(kernels::ColumnSums<kernels::NormTerms<KIND, T>, WIDTH>); \
  INSTANTIATE(kernels::ColumnSums<kernels::NormTerms<KIND, T>, 1>)

INSTANTIATE_ALL(NormKind::layer, float, 4);
INSTANTIATE_ALL(NormKind::layer, BFloat16, 8);
INSTANTIATE_ALL(NormKind::rms, BFloat16, 8);
INSTANTIATE_ALL(NormKind::rms, Float16, 8);

}  // namespace trilith
