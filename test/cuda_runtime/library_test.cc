// The GPU's tests of what CUB, Thrust and the runtime do for operations.
#include "test/ops/cuda/library_test.cu"
