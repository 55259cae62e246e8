// A status of CUDA's libraries becomes an Error that says the call, its place and its meaning; nothing that
// was made before is left over, and the other ranks of a world stop.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/comm/cuda/thread_world.cuh>
#include <trilith/core/error.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/ops/cuda/algorithms.cuh>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/gelu.hpp>
#include <trilith/ops/cuda/gemm.cuh>
#include <trilith/ops/cuda/transfer.cuh>

#include "test/cuda_runtime/machine/machine.hpp"
#include "test/support/files.hpp"
#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr Place place{.rank = 0};

TEST(CudaErrors, SayTheCallItsPlaceItsMeaningAndTheRemedy) {
  imitation::fail("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  const std::string said = error_of([] {
    const Cuda::Stream stream(place);
    Cuda::Memory memory(place);
    const GpuVector<float> x(memory, stream, {1, 2, 3});
  });
  EXPECT_THAT(said, MatchesRegex("cudaMallocHost \\(transfer.cuh:[0-9]+\\): out of memory, "
                                 "cudaErrorMemoryAllocation; use a smaller model, .*"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it has been seen";
}

TEST(CudaErrors, OfCublasSayTheSame) {
  imitation::fail("cublasLtMatmul", 2, CUBLAS_STATUS_EXECUTION_FAILED);
  const std::string said = error_of([] {
    const Cuda::Stream stream(place);
    Cuda::Memory memory(place);
    const GpuVector<float> x(memory, stream, std::vector<float>(64, 1.0f));
    const GpuVector<float> y(memory, 64);
    const Matrix<const float> a(x.data(), {8, 8});
    for (int i = 0; i < 3; ++i) {
      gemm(stream, ops::Transpose::no, a, ops::Transpose::no, a, Matrix<float>(y.data(), {8, 8}));
      EXPECT_EQ(y.values(stream), std::vector<float>(64, 8.0f));
      EXPECT_LT(i, 1);
    }
  });
  EXPECT_THAT(said, AllOf(StartsWith("cublasLtMatmul (gemm_plans.cuh:"),
                          HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED; run the program under")));
}

TEST(CudaErrors, OfMachinesWithoutAGpuSayWhatToDo) {
  imitation::plug_in({.gpus = 0});
  EXPECT_THAT(error_of([] { Cuda::Memory memory(place); }),
              AllOf(HasSubstr("no CUDA-capable device is detected"), HasSubstr("use Device<Host>")));
}

// Of a call that work() makes, lets the first fail, then the second alone, and so on to the last.
void expect_errors(const std::function<void()>& work, const std::string& call, auto status,
                   const testing::Matcher<std::string>& said) {
  imitation::plug_in({});
  work();
  const std::int64_t calls = imitation::calls(call);
  EXPECT_GT(calls, 0) << call;
  for (std::int64_t n = 1; n <= calls; ++n) {
    SCOPED_TRACE(call + ", call " + std::to_string(n));
    imitation::plug_in({.seed = static_cast<std::uint64_t>(n)});
    imitation::fail(call, n, status);
    EXPECT_THAT(error_of(work), said);
    EXPECT_EQ(imitation::live(), imitation::Live{});
    EXPECT_EQ(imitation::fault(), "");
    EXPECT_FALSE(imitation::disturbed());
  }
}

// Everything that a stream, its memory and its operations call, made to fail at every call.
TEST(CudaErrors, LeaveNothingBehindWhereverTheyCome) {
  const auto work = [] {
    Cuda::Memory memory(Place{.rank = 1, .poison = true});
    const Cuda::Stream stream(Place{.rank = 1});
    const Cuda::Stream other(Place{.rank = 1});
    const GpuVector<BFloat16> x(memory, stream, std::vector<BFloat16>(64, BFloat16(1.0f)));
    const GpuVector<BFloat16> y(memory, stream, std::vector<BFloat16>(64));
    const Matrix<const BFloat16> a(x.data(), {8, 8});
    const Vector<const BFloat16> bias(x.data(), {8});
    other.wait(stream);
    gemm_bias(other, ops::Transpose::no, a, ops::Transpose::no, a, bias, Matrix<BFloat16>(y.data(), {8, 8}));
    const GpuVector<float> z(memory, 64);
    const GpuVector<double> sum(memory, 1);
    fill(stream, z.view(), 3);
    sum_of_squares(stream, z.const_view(), sum.view());
    std::int64_t time = 0;
    stream.stamp(&time);
    EXPECT_EQ(sum.values(stream)[0], 9 * 64);
    for (const BFloat16 value : y.values(other)) EXPECT_EQ(static_cast<float>(value), 9);
  };
  // What destructors call besides is left out: they do not look at what it answers.
  const std::vector<std::string> runtime = {"cudaGetDeviceCount",
                                            "cudaMemPoolCreate",
                                            "cudaDeviceCanAccessPeer",
                                            "cudaMemPoolSetAccess",
                                            "cudaStreamCreateWithPriority",
                                            "cudaMallocFromPoolAsync",
                                            "cudaMemsetAsync",
                                            "cudaMallocHost",
                                            "cudaEventCreateWithFlags",
                                            "cudaEventRecord",
                                            "cudaStreamWaitEvent",
                                            "cudaMemcpyAsync",
                                            "cudaMallocAsync",
                                            "cudaLaunchHostFunc",
                                            "cub::DeviceReduce::TransformReduce",
                                            "thrust::fill_n"};
  const std::vector<std::string> cublas = {"cublasLtCreate",
                                           "cublasLtMatmulDescInit",
                                           "cublasLtMatmulDescSetAttribute",
                                           "cublasLtMatrixLayoutInit",
                                           "cublasLtMatmulPreferenceInit",
                                           "cublasLtMatmulPreferenceSetAttribute",
                                           "cublasLtMatmulAlgoGetHeuristic",
                                           "cublasLtMatmul"};
  for (const std::string& call : runtime) expect_errors(work, call, cudaErrorMemoryAllocation, Not(""));
  for (const std::string& call : cublas) expect_errors(work, call, CUBLAS_STATUS_ALLOC_FAILED, Not(""));
}

// Two ranks on two GPUs; one of them fails at some call, wherever that is.
TEST(CudaErrors, StopTheOtherRanks) {
  const auto work = [] {
    CudaThreadWorld world(2);
    world.run([](CudaThreadRank& self) {
      Cuda::Memory memory(Place{.rank = self.rank()});
      const Cuda::Stream stream(Place{.rank = self.rank()});
      CudaThreadCommunicator group = self.group("all", {0, 1});
      const GpuVector<float> x(memory, stream, {1, 2, 3});
      for (int i = 0; i < 3; ++i) group.all_reduce(stream, x.view()).wait(stream);
      EXPECT_EQ(x.values(stream), (std::vector<float>{8, 16, 24}));
    });
  };
  for (const std::string call :
       {"cudaStreamCreateWithPriority", "cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent",
        "cudaLaunchKernelEx", "cudaMemcpyAsync"}) {
    expect_errors(work, call, cudaErrorMemoryAllocation,
                  AllOf(StartsWith("rank "), HasSubstr("out of memory")));
  }
}

// On a GPU that is not the calling thread's; of calls of cudaSetDevice the first goes there, the second back.
TEST(CudaErrors, OfGoingBackToTheGpuBeforeAreThrownUnlessAnotherCameFirst) {
  const Cuda::Stream stream(Place{.rank = 1});
  const auto said = [&](std::int64_t n) {
    gpu::use_gpu(0);
    imitation::fail("cudaSetDevice", n, cudaErrorInvalidDevice);
    return error_of([&] { const Cuda::Stream other = stream.branch(); });
  };
  const auto live = imitation::live();
  for (const std::int64_t n : {1, 2}) EXPECT_THAT(said(n), StartsWith("cudaSetDevice (check.cuh:"));
  imitation::fail("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation);
  EXPECT_THAT(said(2), StartsWith("cudaStreamCreateWithPriority (stream.cuh:"));
  EXPECT_EQ(imitation::live(), live);
  EXPECT_EQ(error_of([&] { const Cuda::Stream other = stream.branch(); }), "");
}

TEST(CudaErrors, OfRanksThatCannotReachEachOtherSaySo) {
  imitation::plug_in({.reach_each_other = false});
  CudaThreadWorld world(2);
  EXPECT_THAT(
      error_of([&] { world.run([](CudaThreadRank& self) {
                       self.group("all", {0, 1});
                     }); }),
      AllOf(HasSubstr("cannot reach the memory of GPU"), HasSubstr("put the ranks on GPUs that can")));
}

}  // namespace
}  // namespace trilith::test
