// The GPU's tests of training in 16-bit precision.
#include "test/train/cuda_step_test.cu"
