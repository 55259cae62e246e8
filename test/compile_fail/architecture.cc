// Does not compile: kernels for a GPU that is too old, as nvcc tells of it.
#ifdef OF_A_75_AND_A_90
#define __CUDA_ARCH_LIST__ 750, 900
#endif

#include <trilith/kernels/architecture.hpp>
