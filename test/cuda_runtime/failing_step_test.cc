// A step of training in which a call of CUDA's libraries fails: all ranks end with an error that names the
// rank and the call, and nothing is left over.
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/cuda.cuh>
#include <trilith/trilith.hpp>

#include "test/cuda_runtime/machine/machine.hpp"
#include "test/reference/random.hpp"
#include "test/support/files.hpp"

namespace trilith::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr GptShape shape{.layers = 2, .hidden = 16, .heads = 2, .positions = 8, .vocabulary = 19};

// A trainer on two tensor ranks and two stages, with their world.
struct Ranks {
  using Layout = Config<Parallelism<2, 2, 1>, Device<Cuda>, Precision<Bf16>>;
  CudaThreadWorld world{4};
  Trainer<Gpt, Layout> trainer{
      shape, world, {.batch = 2, .sequence = 8, .microbatches = 2, .threads_per_rank = 1, .poison = true}};
};

Batch batch() {
  return reference::random_batch(shape, 2, 8, 1);
}

// At the first call of a step, at one in the middle, and at the last.
void expect_errors(const std::string& call, auto status, const std::string& name) {
  std::int64_t calls = 0;
  {
    imitation::plug_in({});
    Ranks ranks;
    const std::int64_t before = imitation::calls(call);
    ranks.trainer.step(batch());
    calls = imitation::calls(call) - before;
  }
  ASSERT_GT(calls, 1) << call;
  for (const std::int64_t n : {std::int64_t{1}, calls / 2, calls}) {
    SCOPED_TRACE(call + ", call " + std::to_string(n) + " of " + std::to_string(calls));
    imitation::plug_in({.seed = static_cast<std::uint64_t>(n)});
    {
      Ranks ranks;
      imitation::fail(call, n, status);
      const std::string said = error_of([&] { ranks.trainer.step(batch()); });
      EXPECT_THAT(said, AllOf(StartsWith("rank "), HasSubstr(name)));
      EXPECT_THAT(error_of([&] { ranks.trainer.step(batch()); }), HasSubstr("this world has failed: rank "));
    }
    EXPECT_EQ(imitation::live(), imitation::Live{});
    EXPECT_EQ(imitation::fault(), "");
    EXPECT_FALSE(imitation::disturbed());
  }
}

TEST(FailingStep, OfTheRuntimeStopsAllRanks) {
  for (const std::string call :
       {"cudaLaunchKernelEx", "cudaMemcpyAsync", "cudaEventCreateWithFlags", "cudaEventRecord",
        "cudaStreamWaitEvent", "cub::DeviceReduce::TransformReduce", "thrust::fill_n"}) {
    expect_errors(call, cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation");
  }
}

TEST(FailingStep, OfCublasStopsAllRanks) {
  for (const std::string call : {"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"}) {
    expect_errors(call, CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED");
  }
}

}  // namespace
}  // namespace trilith::test
