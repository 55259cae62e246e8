// The GPU's tests of matrix products.
#include "test/ops/cuda/gemm_test.cu"
