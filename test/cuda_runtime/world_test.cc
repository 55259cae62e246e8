// The GPU's tests of ranks that are threads.
#include "test/comm/cuda_thread_world_test.cu"
