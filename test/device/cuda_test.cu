// Device<Cuda>: memory, streams, events and launches.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/core/recorder.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/simt/lane.hpp>

#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using testing::HasSubstr;

constexpr Place place{.rank = 0};

// x(i) = factor · x(i) + index of the block, `rounds` times over.
struct Recurrence {
  static constexpr const char* name = "recurrence";
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<float> x;
    float factor;
    int rounds;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Index i = Index{lane.block().x} * threads + lane.thread();
    if (i >= p.x.size) return;
    float x = lane.load(p.x, i);
    for (int round = 0; round < p.rounds; ++round) x = p.factor * x + static_cast<float>(lane.block().x);
    lane.store(p.x, i, x);
  }
};

// Turns x around by way of shared memory, all of it at once.
struct Reversal {
  static constexpr const char* name = "reversal";
  static constexpr int threads = 1024;
  static constexpr int shared_bytes = 96 << 10;
  static constexpr int elements = shared_bytes / sizeof(float);
  struct Params {
    simt::Global<float> x;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto all = lane.shared(simt::Array<float, elements>{});
    for (int i = lane.thread(); i < elements; i += threads) lane.store(all, i, lane.load(p.x, i));
    lane.barrier();
    for (int i = lane.thread(); i < elements; i += threads) {
      lane.store(p.x, i, lane.load(all, elements - 1 - i));
    }
  }
};

TEST(CudaLaunch, GridsThatNoGpuTakesAreRefused) {
  EXPECT_EQ(gpu::checked_grid("scale", {.x = 1 << 20, .y = 65535, .z = 1}).x, 1U << 20);
  for (const simt::Dim3 grid : {simt::Dim3{.x = 0}, {.y = 65536}, {.z = 65536}, {.x = -1}}) {
    try {
      static_cast<void>(gpu::checked_grid("scale", grid));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("kernel scale: a grid of"));
    }
  }
}

using CudaMemory = GpuTest;

TEST_F(CudaMemory, IsCounted) {
  Cuda::Memory memory(place);
  EXPECT_EQ(memory.bytes_in_use(), 0U);
  Cuda::Allocation first = memory.allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 256, 0U);
  {
    const Cuda::Allocation second = memory.allocate(std::size_t{1} << 20);
    EXPECT_EQ(memory.bytes_in_use(), 1024U + (1U << 20));
  }
  EXPECT_EQ(memory.bytes_in_use(), 1024U);
  EXPECT_EQ(memory.peak_bytes(), 1024U + (1U << 20));
  const Cuda::Allocation moved = std::move(first);
  EXPECT_EQ(memory.bytes_in_use(), 1024U);
}

TEST_F(CudaMemory, IsPoisonedWithNan) {
  Cuda::Memory memory(Place{.rank = 0, .poison = true});
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, 1000);
  for (const float value : x.values(stream)) ASSERT_TRUE(std::isnan(value));
}

TEST_F(CudaMemory, MoreThanThereIsIsRefusedAndDoesNotHurt) {
  Cuda::Memory memory(place);
  std::size_t left = 0;
  std::size_t all = 0;
  gpu::check(cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
  try {
    static_cast<void>(memory.allocate(2 * all));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot allocate " + std::to_string(2 * all) + " bytes on GPU 0"));
  }
  EXPECT_EQ(memory.bytes_in_use(), 0U);
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, stream, {1, 2, 3});
  EXPECT_EQ(x.values(stream), (std::vector<float>{1, 2, 3}));
}

// What is dropped while a kernel uses it is given out again only when the kernel is done.
TEST_F(CudaMemory, IsNotGivenOutWhileAKernelUsesIt) {
  Cuda::Memory memory(place);
  const Cuda::Stream busy(place);
  const Cuda::Stream other(place);
  constexpr Index size = Index{1} << 20;
  {
    const GpuVector<float> x(memory, busy, std::vector<float>(size, 1.0f));
    busy.launch(Recurrence{}, {.x = size / 64}, {{x.data(), size}, 1.0f, 100000});
  }
  const GpuVector<float> y(memory, other, std::vector<float>(size, 7.0f));
  busy.synchronize();
  EXPECT_EQ(y.values(other), std::vector<float>(size, 7.0f));
}

using CudaStream = GpuTest;

TEST_F(CudaStream, RunsKernelsInOrder) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, stream, std::vector<float>(130, 1.0f));
  stream.launch(Recurrence{}, {.x = 3}, {{x.data(), 130}, 3.0f, 1});
  stream.launch(Recurrence{}, {.x = 3}, {{x.data(), 130}, 10.0f, 1});
  const std::vector<float> values = x.values(stream);
  for (Index i = 0; i < 130; ++i) {
    const float block = static_cast<float>(i / 64);
    EXPECT_EQ(values[static_cast<std::size_t>(i)], (3 + block) * 10 + block);
  }
}

TEST_F(CudaStream, LetsAKernelHaveMoreThan48KiBOfSharedMemory) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  std::vector<float> expected;
  for (int i = 0; i < Reversal::elements; ++i) expected.push_back(static_cast<float>(i));
  const GpuVector<float> x(memory, stream, expected);
  for (int i = 0; i < 2; ++i) stream.launch(Reversal{}, {}, {{x.data(), Reversal::elements}});
  EXPECT_EQ(x.values(stream), expected);
}

TEST_F(CudaStream, StampsTimesInTheOrderOfItsWork) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, stream, std::vector<float>(64, 0.0f));
  stream.synchronize();
  const std::int64_t before = steady_time();
  std::int64_t begin = 0;
  std::int64_t end = 0;
  stream.stamp(&begin);
  stream.launch(Recurrence{}, {}, {{x.data(), 64}, 1.0f, 1000000});
  stream.stamp(&end);
  stream.synchronize();
  EXPECT_LE(before, begin);
  EXPECT_GT(end - begin, 1000000);  // a million rounds of at least a nanosecond
  EXPECT_LE(end, steady_time());
}

TEST_F(CudaStream, KeepsOneObjectOfEachTypeUntilItEnds) {
  static int made = 0;
  static int ended = 0;
  made = ended = 0;  // tests may be repeated
  struct Counted {
    explicit Counted(cudaStream_t) { ++made; }
    ~Counted() { ++ended; }
  };
  {
    Cuda::Stream stream(place);
    Counted& first = stream.kept<Counted>();
    EXPECT_EQ(&stream.kept<Counted>(), &first);
    const Cuda::Stream moved = std::move(stream);
    EXPECT_EQ(&moved.kept<Counted>(), &first);
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(ended, 1);
}

// Its members would be assigned in order, and what is kept with it end after it.
static_assert(std::is_nothrow_move_constructible_v<Cuda::Stream> && !std::is_move_assignable_v<Cuda::Stream>);

TEST_F(CudaStream, MakesWhatItKeepsOnItsGpu) {
  struct Made {
    explicit Made(cudaStream_t) : on(gpu::current_gpu()) {}
    int on;
  };
  const Cuda::Stream first(Place{.rank = 0});
  const Cuda::Stream second(Place{.rank = 1});  // now the calling thread's GPU is its
  EXPECT_EQ(first.kept<Made>().on, first.gpu());
  EXPECT_EQ(gpu::current_gpu(), second.gpu());
}

TEST_F(CudaStream, BranchesOffAnotherThatRunsBesideIt) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  const SideStream side(stream);
  const GpuVector<float> x(memory, stream, std::vector<float>(64, 1.0f));
  const GpuVector<float> y(memory, stream, std::vector<float>(64, 1.0f));
  for (int round = 0; round < 10; ++round) {
    stream.launch(Recurrence{}, {}, {{x.data(), 64}, 2.0f, 1});
    stream.launch(Recurrence{}, {}, {{x.data(), 64}, 1.0f, 100000});
    SideWork forked = side.fork(stream);
    forked.stream().launch(Recurrence{}, {}, {{x.data(), 64}, 0.5f, 1});
    forked.stream().launch(Recurrence{}, {}, {{x.data(), 64}, 1.0f, 100000});
    stream.launch(Recurrence{}, {}, {{y.data(), 64}, -1.0f, 1});
    forked.join();
    stream.launch(Recurrence{}, {}, {{x.data(), 64}, -1.0f, 1});
  }
  EXPECT_EQ(x.values(stream), std::vector<float>(64, 1.0f));
  EXPECT_EQ(y.values(stream), std::vector<float>(64, 1.0f));
}

using CudaEvent = GpuTest;

TEST_F(CudaEvent, JoinsStreams) {
  Cuda::Memory memory(place);
  const Cuda::Stream first(place);
  const Cuda::Stream second(place);
  const GpuVector<float> x(memory, first, std::vector<float>(64, 1.0f));
  const Cuda::Event event;
  for (int round = 0; round < 10; ++round) {
    first.launch(Recurrence{}, {}, {{x.data(), 64}, 2.0f, 1});
    first.launch(Recurrence{}, {}, {{x.data(), 64}, 1.0f, 100000});
    event.record(first);
    second.wait(event);
    second.launch(Recurrence{}, {}, {{x.data(), 64}, 0.5f, 1});
    first.wait(second);
  }
  EXPECT_EQ(x.values(first), std::vector<float>(64, 1.0f));
}

TEST_F(CudaEvent, TellsTheTimeBetweenTwo) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, stream, std::vector<float>(64, 0.0f));
  const Cuda::Event begin(Cuda::Event::Timing::yes);
  const Cuda::Event end(Cuda::Event::Timing::yes);
  begin.record(stream);
  stream.launch(Recurrence{}, {}, {{x.data(), 64}, 1.0f, 1000000});
  end.record(stream);
  end.synchronize();
  EXPECT_GT(end.milliseconds_since(begin), 1.0f);
}

using CudaErrors = GpuTest;

TEST_F(CudaErrors, NameTheCallAndItsPlace) {
  try {
    gpu::check(cudaSetDevice(1 << 20), "cudaSetDevice");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudaSetDevice (cuda_test.cu:"));
    EXPECT_THAT(error.what(), HasSubstr("cudaErrorInvalidDevice"));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace trilith::test
