// The imitation's streams and events: what is ordered comes in order, and what is not comes in either order,
// so that a wait that is missing shows.
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/device/cuda.cuh>

#include "test/cuda_runtime/machine/machine.hpp"

namespace trilith::test {
namespace {

using testing::ElementsAre;

constexpr Place place{.rank = 0};

// Appends a number to what has happened, when the stream comes to it.
class History {
 public:
  void append(const Cuda::Stream& stream, int number) {
    entries_.push_back({this, number});
    const auto happen = [](void* data) {
      const auto* const entry = static_cast<const Entry*>(data);
      entry->history->happened_.push_back(entry->number);
    };
    gpu::check(cudaLaunchHostFunc(stream.get(), happen, &entries_.back()), "cudaLaunchHostFunc");
  }
  const std::vector<int>& happened() const { return happened_; }

 private:
  struct Entry {
    History* history;
    int number;
  };
  std::deque<Entry> entries_;
  std::vector<int> happened_;
};

// All that happens under some dozens of seeds.
std::set<std::vector<int>> histories(const std::function<void(History&)>& run) {
  std::set<std::vector<int>> all;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    imitation::plug_in({.seed = seed});
    History history;
    run(history);
    all.insert(history.happened());
  }
  return all;
}

TEST(ImitatedStreams, RunTheirWorkInOrder) {
  const auto seen = histories([](History& history) {
    const Cuda::Stream stream(place);
    for (const int number : {1, 2, 3, 4}) history.append(stream, number);
    stream.synchronize();
  });
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1, 2, 3, 4)));
}

TEST(ImitatedStreams, RunSideBySideWhereNothingOrdersThem) {
  const auto seen = histories([](History& history) {
    const Cuda::Stream first(place);
    const Cuda::Stream second(place);
    history.append(first, 1);
    history.append(second, 2);
    first.synchronize();
    second.synchronize();
  });
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1, 2), ElementsAre(2, 1)));
}

TEST(ImitatedStreams, ComeInOrderWhereOneWaitsForTheOther) {
  const auto seen = histories([](History& history) {
    const Cuda::Stream first(place);
    const Cuda::Stream second(place);
    history.append(first, 1);
    second.wait(first);
    history.append(second, 2);
    first.wait(second);
    history.append(first, 3);
    first.synchronize();
  });
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1, 2, 3)));
}

// Also over GPUs.
TEST(ImitatedStreams, WaitForThoseOfOtherGpus) {
  const auto seen = histories([](History& history) {
    const Cuda::Stream first(Place{.rank = 0});
    history.append(first, 1);
    gpu::use_gpu(0);
    const Cuda::Event event;
    event.record(first);
    const Cuda::Stream second(Place{.rank = 1});
    second.wait(event);
    history.append(second, 2);
    second.synchronize();
  });
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1, 2)));
}

// Under some seeds it is late, under others early.
TEST(ImitatedStreams, NeedNotHaveBegunBeforeSomeoneWaits) {
  std::set<std::vector<int>> before;
  histories([&](History& history) {
    const Cuda::Stream stream(place);
    history.append(stream, 1);
    history.append(stream, 2);
    const Cuda::Event another_call;
    before.insert(history.happened());
    stream.synchronize();
  });
  EXPECT_THAT(before, testing::IsSupersetOf({std::vector<int>{}, std::vector<int>{1, 2}}));
}

TEST(ImitatedStreams, EndTheirWorkWhenTheyAreDestroyed) {
  const auto seen = histories([](History& history) {
    const Cuda::Stream other(place);
    history.append(other, 1);
    int done = 0;
    {
      const Cuda::Event event;
      event.record(other);
      cudaStream_t const stream = gpu::make_stream().release();  // its handle would wait for its work
      gpu::check(cudaStreamWaitEvent(stream, event.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
      const auto count = [](void* number) { ++*static_cast<int*>(number); };
      gpu::check(cudaLaunchHostFunc(stream, count, &done), "cudaLaunchHostFunc");
      gpu::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    }
    gpu::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    EXPECT_EQ(done, 1);
  });
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1)));
}

// A wait stands for the work before the record that was the last when it was asked for.
TEST(ImitatedEvents, StandForTheirLastRecord) {
  const auto seen = histories([](History& history) {
    const Cuda::Stream first(place);
    const Cuda::Stream second(place);
    const Cuda::Event event;
    second.wait(event);  // never recorded: for nothing
    history.append(first, 1);
    event.record(first);
    second.wait(event);
    history.append(second, 2);
    history.append(first, 3);
    event.record(first);
    first.synchronize();
    second.synchronize();
  });
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1, 2, 3), ElementsAre(1, 3, 2)));
}

TEST(ImitatedEvents, AreRefusedByStreamsOfOtherGpus) {
  gpu::use_gpu(0);
  const Cuda::Event event;
  const Cuda::Stream stream(Place{.rank = 1});
  EXPECT_EQ(cudaEventRecord(event.get(), stream.get()), cudaErrorInvalidResourceHandle);
}

struct Nothing {
  static constexpr const char* name = "nothing";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct Params {};
  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane&, const Params&) const {}
};

TEST(ImitatedLaunches, AreRefusedOnStreamsOfOtherGpus) {
  const Cuda::Stream stream(Place{.rank = 1});
  stream.launch(Nothing{}, {}, {});
  gpu::use_gpu(0);
  EXPECT_THROW(stream.launch(Nothing{}, {}, {}), Error);
}

struct Large : Nothing {
  static constexpr int shared_bytes = 64 << 10;
};

TEST(ImitatedLaunches, NeedLeaveForMoreThan48KiBOfSharedMemory) {
  const Cuda::Stream stream(place);
  const cudaLaunchConfig_t config{
      .gridDim = {}, .blockDim = {32}, .dynamicSmemBytes = Large::shared_bytes, .stream = stream.get()};
  EXPECT_EQ(cudaLaunchKernelEx(&config, simt::entry<Large>, {}), cudaErrorInvalidValue);
  gpu::allow_shared_memory<Large>(0);
  EXPECT_EQ(cudaLaunchKernelEx(&config, simt::entry<Large>, {}), cudaSuccess);
}

}  // namespace
}  // namespace trilith::test
