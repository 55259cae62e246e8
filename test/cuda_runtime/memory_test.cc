// The imitation's memory: what is used before it is there, after it was given back, from another GPU, or
// while it is still to be read, shows.
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/device/cuda.cuh>

#include "test/cuda_runtime/machine/machine.hpp"
#include "test/support/gpu.cuh"

namespace trilith::test {
namespace {

using testing::HasSubstr;

constexpr Place place{.rank = 0};

// x(i) = value
struct Set {
  static constexpr const char* name = "set";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<float> x;
    float value;
  };
  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    if (lane.thread() < p.x.size) lane.store(p.x, lane.thread(), p.value);
  }
};

void set(const Cuda::Stream& stream, float* x, Index size, float value) {
  stream.launch(Set{}, {}, {{x, size}, value});
}

// What download() sees of one element, under some dozens of seeds. NaN is given as −1.
template <class Run>
std::set<float> values_seen(const Run& run) {
  std::set<float> seen;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    imitation::plug_in({.seed = seed});
    const float value = run();
    seen.insert(value == value ? value : -1);
  }
  return seen;
}

// What one stream writes another reads, with a wait or, planted here, without it.
float passed_on(bool waits) {
  Cuda::Memory memory(place);
  const Cuda::Stream writer(place);
  const Cuda::Stream reader(place);
  const GpuVector<float> x(memory, 1);
  set(writer, x.data(), 1, 1);
  writer.synchronize();
  set(writer, x.data(), 1, 2);
  if (waits) reader.wait(writer);
  return x.values(reader)[0];
}

TEST(ImitatedMemory, IsReadTooEarlyWhereAWaitIsMissing) {
  EXPECT_EQ(values_seen([] { return passed_on(true); }), std::set<float>{2});
  EXPECT_EQ(values_seen([] { return passed_on(false); }), (std::set<float>{1, 2}));
}

// A pinned buffer is read when the stream comes to it; ordinary memory, before the call returns.
float uploaded(bool pinned, bool waits) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, 1);
  float ordinary = 0;
  void* buffer = &ordinary;
  if (pinned) gpu::check(cudaMallocHost(&buffer, sizeof(float)), "cudaMallocHost");
  auto* const host = static_cast<float*>(buffer);
  *host = 1;
  gpu::check(cudaMemcpyAsync(x.data(), host, sizeof(float), cudaMemcpyHostToDevice, stream.get()),
             "cudaMemcpyAsync");
  if (waits) stream.synchronize();
  *host = 2;
  const float value = x.values(stream)[0];
  if (pinned) gpu::check(cudaFreeHost(buffer), "cudaFreeHost");
  return value;
}

TEST(ImitatedMemory, OfTheHostIsReadLateWhereItIsPinned) {
  EXPECT_EQ(values_seen([] { return uploaded(false, false); }), std::set<float>{1});
  EXPECT_EQ(values_seen([] { return uploaded(true, true); }), std::set<float>{1});
  EXPECT_EQ(values_seen([] { return uploaded(true, false); }), (std::set<float>{1, 2}));
}

// A download has arrived when the stream is waited for, and perhaps before.
TEST(ImitatedMemory, OfTheHostIsWrittenLate) {
  EXPECT_EQ(values_seen([] {
              Cuda::Memory memory(place);
              const Cuda::Stream stream(place);
              const GpuVector<float> x(memory, stream, {7});
              float host = 0;
              gpu::check(cudaMemcpyAsync(&host, x.data(), sizeof(host), cudaMemcpyDeviceToHost, stream.get()),
                         "cudaMemcpyAsync");
              const Cuda::Event another_call;
              const float at_once = host;
              stream.synchronize();
              EXPECT_EQ(host, 7);
              return at_once;
            }),
            (std::set<float>{0, 7}));
}

TEST(ImitatedMemory, IsNanWhenItIsNew) {
  Cuda::Memory memory(place);
  const Cuda::Stream stream(place);
  const GpuVector<float> x(memory, 100);
  for (const float value : x.values(stream)) EXPECT_NE(value, value);
}

// Says what goes wrong in some work, and leaves nothing of it behind.
template <class Work>
std::string fault_of(const Work& work, std::uint64_t seed = 1) {
  imitation::plug_in({.seed = seed});
  try {
    work();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudaError"));
  }
  EXPECT_EQ(imitation::live(), imitation::Live{});
  const std::string fault = imitation::fault();
  imitation::plug_in({});
  return fault;
}

// Raw memory of a stream.
struct Piece {
  explicit Piece(const Cuda::Stream& of) : stream(of) {
    gpu::check(cudaMallocAsync(&data, 4, stream.get()), "cudaMallocAsync");
  }
  ~Piece() { gpu::ignore(cudaFreeAsync(data, stream.get())); }
  float* floats() const { return static_cast<float*>(data); }
  const Cuda::Stream& stream;
  void* data = nullptr;
};

TEST(ImitatedMemory, MustBeThereWhenAnotherStreamUsesIt) {
  std::set<std::string> faults;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    faults.insert(fault_of(
        [] {
          const Cuda::Stream owner(place);
          const Cuda::Stream user(place);
          const Piece piece(owner);
          set(user, piece.floats(), 1, 1);
          user.synchronize();
        },
        seed));
  }
  EXPECT_THAT(faults, testing::Contains(HasSubstr("whose allocation is still in its stream's queue")));
}

// Does nothing.
struct Idle {
  static constexpr const char* name = "idle";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct Params {
    std::uint64_t number;
    bool flag;  // and padding
  };
  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane&, const Params&) const {}
};

// Of memory that was given back.
TEST(ImitatedMemory, IsNotNamedByThePaddingOfParameters) {
  EXPECT_EQ(fault_of([] {
              const Cuda::Stream stream(place);
              float* data = nullptr;
              {
                const Piece piece(stream);
                data = piece.floats();
              }
              Idle::Params params;
              float* const stale[] = {data, data};
              static_assert(sizeof(stale) == sizeof(params));
              std::memcpy(&params, stale, sizeof(params));
              params.number = 0;
              params.flag = true;
              stream.launch(Idle{}, {}, params);
              stream.synchronize();
            }),
            "");
}

TEST(ImitatedMemory, MustNotBeUsedAfterItWasGivenBack) {
  const auto use = [](auto&& of) {
    return fault_of([&] {
      const Cuda::Stream stream(place);
      float* data = nullptr;
      {
        const Piece piece(stream);
        data = piece.floats();
      }
      of(stream, data);
      stream.synchronize();
    });
  };
  EXPECT_THAT(use([](const Cuda::Stream& s, float* data) { set(s, data, 1, 1); }),
              HasSubstr("a kernel is given the address of memory that was given back"));
  EXPECT_THAT(use([](const Cuda::Stream& s, float* data) {
                gpu::check(cudaMemsetAsync(data, 0, 4, s.get()), "cudaMemsetAsync");
              }),
              HasSubstr("cudaMemsetAsync touches memory that was given back"));
  EXPECT_EQ(use([](const Cuda::Stream& s, float* data) {
              EXPECT_EQ(cudaFreeAsync(data, s.get()), cudaErrorInvalidValue);
            }),
            "");
}

TEST(ImitatedMemory, TellsOfWritesAfterItWasGivenBack) {
  {
    const Cuda::Stream stream(place);
    float* data = nullptr;
    {
      const Piece piece(stream);
      data = piece.floats();
    }
    stream.synchronize();
    EXPECT_FALSE(imitation::disturbed());
    *data = 1;
    EXPECT_TRUE(imitation::disturbed());
  }
  imitation::plug_in({});
}

TEST(ImitatedMemory, EndsWhereItEnds) {
  EXPECT_THAT(fault_of([] {
                const Cuda::Stream stream(place);
                const Piece piece(stream);
                gpu::check(cudaMemsetAsync(piece.data, 0, 5, stream.get()), "cudaMemsetAsync");
                stream.synchronize();
              }),
              HasSubstr("beyond the end of an allocation"));
}

TEST(ImitatedMemory, OfAnotherGpuNeedsAccess) {
  const auto write_from_the_other = [] {
    const Cuda::Stream owner(Place{.rank = 0});
    const Piece piece(owner);  // of no pool that gives access
    owner.synchronize();
    const Cuda::Stream user(Place{.rank = 1});
    set(user, piece.floats(), 1, 1);
    user.synchronize();
  };
  EXPECT_THAT(fault_of(write_from_the_other),
              HasSubstr("memory of GPU 0, which GPU 1 was not given access to"));
  EXPECT_EQ(fault_of([] {
              Cuda::Memory memory(Place{.rank = 0});
              const Cuda::Allocation given = memory.allocate(4);
              const Cuda::Stream user(Place{.rank = 1});
              set(user, reinterpret_cast<float*>(given.data()), 1, 1);
              user.synchronize();
            }),
            "");
}

struct BesideIt {
  static constexpr const char* name = "beside_it";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  using Params = Set::Params;
  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    lane.store(p.x, p.x.size, p.value);
  }
};

// What the emulator finds shows as an error in the calls that come later, as on a GPU.
TEST(ImitatedKernels, ThatGoWrongBreakTheGpu) {
  EXPECT_THAT(fault_of([] {
                const Cuda::Stream stream(place);
                const Piece piece(stream);
                stream.launch(BesideIt{}, {}, {{piece.floats(), 1}, 1});
                EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorLaunchFailure);
                EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
                set(stream, piece.floats(), 1, 1);
              }),
              HasSubstr("kernel beside_it, block (0, 0, 0)"));
}

}  // namespace
}  // namespace trilith::test
