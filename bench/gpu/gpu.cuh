// What benchmarks on a GPU share: arrays of random numbers, time by events, and the GPU's own limits.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <trilith/core/device_code.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>
#include <trilith/simt/lane.hpp>

namespace trilith::bench {

struct Gpu {
  // What has not been written is NaN.
  Cuda::Memory memory{Place{.poison = true}};
  Cuda::Stream stream{Place{}};
};

// x = mean + deviation · z, where z is the sum of eight uniform numbers, scaled to variance 1: nearly normal.
template <class T>
struct Randomize {
  static constexpr const char* name = "randomize";
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<T> x;
    float mean;
    float deviation;
    std::uint64_t stream;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const Philox random(1, p.stream);
    const Index step = Index{lane.grid().x} * threads;
    for (Index i = Index{lane.block().x} * threads + lane.thread(); i < p.x.size; i += step) {
      float sum = 0;
      for (const std::uint32_t word : random.block(static_cast<std::uint64_t>(i))) {
        sum += static_cast<float>(word & 0xFFFFu) + static_cast<float>(word >> 16);
      }
      // Each has variance (2^32 - 1) / 12 and mean 32767.5.
      const float normal = (sum - 8 * 32767.5f) * (1 / 53509.9f);
      lane.store(p.x, i, static_cast<T>(p.mean + p.deviation * normal));
    }
  }
};

// Enqueues it. Vectors of equal `stream` get equal numbers.
template <class T>
void randomize(const Gpu& gpu, Vector<T> x, std::uint64_t stream, float mean = 0, float deviation = 1) {
  gpu.stream.launch(Randomize<T>{}, {.x = 1024}, {{x.data(), x.size()}, mean, deviation, stream});
}

template <class T>
class Array {
 public:
  Array(Gpu& gpu, Index size)
      : allocation_(gpu.memory.allocate(static_cast<std::size_t>(size) * sizeof(T))), size_(size) {}

  static Array random(Gpu& gpu, Index size, std::uint64_t stream) {
    Array array(gpu, size);
    randomize(gpu, Vector<T>(array.data(), {size}), stream);
    return array;
  }

  T* data() const { return reinterpret_cast<T*>(allocation_.data()); }
  Index size() const { return size_; }

 private:
  Cuda::Allocation allocation_;
  Index size_;
};

// Rows of `columns` elements, `stride` apart, brought to the host when the stream's work is done.
template <class T>
std::vector<float> rows_on_host(const Gpu& gpu, const T* first, Index rows, Index columns, Index stride) {
  std::vector<T> raw(static_cast<std::size_t>(rows * columns));
  const auto bytes = [](Index elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  gpu.stream.synchronize();
  gpu::check(cudaMemcpy2D(raw.data(), bytes(columns), first, bytes(stride), bytes(columns),
                          static_cast<std::size_t>(rows), cudaMemcpyDeviceToHost),
             "cudaMemcpy2D");
  std::vector<float> values(raw.size());
  std::transform(raw.begin(), raw.end(), values.begin(), [](T x) { return static_cast<float>(x); });
  return values;
}

// The median of the times that run() takes on the stream, in seconds. As many runs as take about a third of a
// second, at least 5 and at most 50, after a few that do not count.
template <class Run>
double median_seconds(const Cuda::Stream& stream, Run&& run) {
  const auto time_each = [&](int runs) {
    std::vector<Cuda::Event> events;
    for (int i = 0; i < 2 * runs; ++i) events.emplace_back(Cuda::Event::Timing::yes);
    for (int i = 0; i < runs; ++i) {
      events[2 * i].record(stream);
      run();
      events[2 * i + 1].record(stream);
    }
    stream.synchronize();
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i) {
      seconds.push_back(1e-3 * events[2 * i + 1].milliseconds_since(events[2 * i]));
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  };
  const double about = time_each(3);
  return time_each(static_cast<int>(std::clamp(0.33 / about, 5.0, 50.0)));
}

}  // namespace trilith::bench
