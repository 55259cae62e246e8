// The kernels that memory bounds, for nvcc: resources_test.sh looks at what it makes of them.

#include <trilith/kernels/adamw.hpp>
#include <trilith/kernels/column_sums.hpp>
#include <trilith/kernels/copy_heads.hpp>
#include <trilith/kernels/cross_entropy.hpp>
#include <trilith/kernels/each.hpp>
#include <trilith/kernels/each_head.hpp>
#include <trilith/kernels/elementwise.hpp>
#include <trilith/kernels/embedding.hpp>
#include <trilith/kernels/embedding_backward.hpp>
#include <trilith/kernels/gelu.hpp>
#include <trilith/kernels/norm.hpp>
#include <trilith/kernels/norm_backward.hpp>
#include <trilith/kernels/rotary.hpp>
#include <trilith/kernels/softmax_statistics.hpp>
#include <trilith/kernels/swiglu.hpp>
#include <trilith/simt/entry.cuh>

namespace trilith {

using namespace kernels;

#define INSTANTIATE(...) \
  template __global__ void simt::entry<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__::Params)
#define INSTANTIATE_NORM(KERNEL, KIND, T, WIDTH)                                              \
  INSTANTIATE(KERNEL<KIND, T, RowTeam{.threads = 32, .width = WIDTH, .packs = 32 / WIDTH}>);  \
  INSTANTIATE(KERNEL<KIND, T, RowTeam{.threads = 256, .width = WIDTH, .packs = 32 / WIDTH}>); \
  INSTANTIATE(KERNEL<KIND, T, RowTeam{.threads = 256, .width = WIDTH}>)

// N elements of T fill a load; so do M of T and float together.
#define INSTANTIATE_ALL(T, N, M)                             \
  INSTANTIATE(EachPack<AddBias<T>, N>);                      \
  INSTANTIATE(EachPack<AddBiasResidual<T>, N>);              \
  INSTANTIATE(EachPack<Add<T>, N>);                          \
  INSTANTIATE(EachPack<Scale<T>, N>);                        \
  INSTANTIATE(EachPack<Fill<T>, N>);                         \
  INSTANTIATE(EachPack<Copy<T, T>, N>);                      \
  INSTANTIATE(EachHead<CopyHeads<T, T>, N>);                 \
  INSTANTIATE(EachPack<Gelu<T>, N>);                         \
  INSTANTIATE(EachPack<AddBiasGelu<T>, N>);                  \
  INSTANTIATE(EachPack<GeluBackward<T>, N>);                 \
  INSTANTIATE(EachPack<Swiglu<T>, N>);                       \
  INSTANTIATE(EachPack<SwigluBackward<T>, N>);               \
  INSTANTIATE(EachPack<Embedding<T>, N>);                    \
  INSTANTIATE(EachPack<AddPositions<T>, N>);                 \
  INSTANTIATE(EachPack<CrossEntropyBackward<T>, N>);         \
  INSTANTIATE(EachPack<AdamW<T>, M>);                        \
  INSTANTIATE(EachPack<PositionsBackward<T>, M>);            \
  INSTANTIATE(EachHead<Rotary<T, false>, M>);                \
  INSTANTIATE(EachHead<Rotary<T, true>, M>);                 \
  INSTANTIATE(EmbeddingBackward<T, M>);                      \
  INSTANTIATE(SoftmaxStatistics<T, N>);                      \
  INSTANTIATE(ColumnSums<BiasTerms<T>, N>);                  \
  INSTANTIATE(ColumnSums<NormTerms<NormKind::layer, T>, N>); \
  INSTANTIATE(ColumnSums<NormTerms<NormKind::rms, T>, N>);   \
  INSTANTIATE_NORM(Norm, NormKind::layer, T, N);             \
  INSTANTIATE_NORM(Norm, NormKind::rms, T, N);               \
  INSTANTIATE_NORM(NormBackward, NormKind::layer, T, N);     \
  INSTANTIATE_NORM(NormBackward, NormKind::rms, T, N)

INSTANTIATE_ALL(float, 4, 4);
INSTANTIATE_ALL(BFloat16, 8, 4);
INSTANTIATE_ALL(Float16, 8, 4);

INSTANTIATE(EachPack<Copy<float, BFloat16>, 4>);
INSTANTIATE(EachPack<Copy<BFloat16, float>, 4>);
INSTANTIATE(EachHead<CopyHeads<float, BFloat16>, 4>);
INSTANTIATE(EachHead<CopyHeads<BFloat16, float>, 4>);
INSTANTIATE(EachPack<RotaryTable, 1>);
INSTANTIATE(EachPack<RescaleSums, 4>);
INSTANTIATE(CrossEntropyLoss);

// Rows that no wide load may begin at.
INSTANTIATE(EachPack<SwigluBackward<BFloat16>, 1>);
INSTANTIATE(EachHead<Rotary<BFloat16, false>, 1>);
INSTANTIATE(EmbeddingBackward<BFloat16, 1>);
INSTANTIATE(SoftmaxStatistics<BFloat16, 1>);
INSTANTIATE(ColumnSums<NormTerms<NormKind::layer, BFloat16>, 1>);
INSTANTIATE(Norm<NormKind::layer, BFloat16, RowTeam{.threads = 256}>);
INSTANTIATE(NormBackward<NormKind::layer, BFloat16, RowTeam{.threads = 256}>);

}  // namespace trilith
