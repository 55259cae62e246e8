// Streams and events of a GPU: values that own what they stand for.
#pragma once

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/recorder.hpp>
#include <trilith/device/cuda/check.cuh>
#include <trilith/device/cuda/device.cuh>
#include <trilith/device/cuda/scratch.cuh>
#include <trilith/device/device.hpp>
#include <trilith/simt/entry.cuh>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0 {

namespace gpu {

// When its work is done, which may write to what the stream's owner has.
struct DestroyStream {
  void operator()(cudaStream_t stream) const {
    ignore(cudaStreamSynchronize(stream));
    ignore(cudaStreamDestroy(stream));
  }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { ignore(cudaEventDestroy(event)); }
};

using StreamHandle = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using EventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

enum class Priority { usual, first };

// On the calling thread's GPU. It waits for no other stream unless it is told to. Where blocks of several
// streams could start, those of Priority::first do.
inline StreamHandle make_stream(Priority priority = Priority::usual) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == Priority::first ? greatest : least),
        "cudaStreamCreateWithPriority");
  return StreamHandle(stream);
}

// Throws Error where a GPU takes no grid of these extents (CUDA C++ Programming Guide, "Compute
// capabilities").
inline dim3 checked_grid(const char* kernel, simt::Dim3 grid) {
  constexpr int most_y_z = 65535;
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0 || grid.y > most_y_z || grid.z > most_y_z) {
    throw Error(std::string("kernel ") + kernel + ": a grid of " + std::to_string(grid.x) + " × " +
                    std::to_string(grid.y) + " × " + std::to_string(grid.z) + " blocks",
                "all three extents must be positive, and the second and third at most 65535");
  }
  return {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)};
}

// Lets a kernel have all the shared memory that it asks for; once for each GPU.
template <simt::kernel K>
void allow_shared_memory(int gpu) {
  constexpr int granted = 48 << 10;
  if constexpr (K::shared_bytes > granted) {
    static std::atomic<std::uint64_t> allowed = 0;  // a bit for each of the first 64 GPUs
    const std::uint64_t bit = gpu < 64 ? std::uint64_t{1} << gpu : 0;
    if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
    check(cudaFuncSetAttribute(simt::entry<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, K::shared_bytes),
          K::name);
    allowed.fetch_or(bit, std::memory_order_relaxed);
  }
}

}  // namespace gpu

// A point in a stream's work. Made on the calling thread's GPU, whose streams alone record it; those of any
// GPU wait for it.
class Cuda::Event {
 public:
  enum class Timing : bool { no, yes };

  explicit Event(Timing timing = Timing::no) {
    cudaEvent_t event = nullptr;
    const unsigned flags = timing == Timing::yes ? cudaEventDefault : cudaEventDisableTiming;
    gpu::check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
    event_.reset(event);
  }

  // From now on it stands for the end of the work given to the stream so far.
  void record(const Stream& stream) const;

  // Returns when that work is done; at once where none was recorded.
  void synchronize() const { gpu::check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"); }

  // Both with Timing::yes, recorded, and done.
  float milliseconds_since(const Event& earlier) const {
    float time = 0;
    gpu::check(cudaEventElapsedTime(&time, earlier.get(), get()), "cudaEventElapsedTime");
    return time;
  }

  cudaEvent_t get() const { return event_.get(); }

 private:
  gpu::EventHandle event_;
};

// Work of one rank in order. Several streams of a rank run side by side until wait() joins them. A stream
// ends when its work is done. It moves but is not assigned to: members are assigned in order, so what was
// kept with the stream would end after it.
class Cuda::Stream : public ops::Stream {
 public:
  static constexpr bool has_libraries = true;

  // On the calling thread's GPU.
  Stream() : Stream(gpu::current_gpu(), gpu::Priority::usual) {}

  // On the rank's GPU, which becomes the calling thread's.
  explicit Stream(const Place& place) : Stream(gpu::use_gpu_of(place.rank), gpu::Priority::usual) {}

  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = delete;

  // Another one on the same GPU, which goes first where both could go on.
  Stream branch() const {
    return gpu::on_gpu(gpu_, [&] { return Stream(gpu_, gpu::Priority::first); });
  }

  cudaStream_t get() const { return stream_.get(); }
  int gpu() const { return gpu_; }

  // Returns when all work given to the stream is done, and throws what went wrong in it.
  void synchronize() const { gpu::check(cudaStreamSynchronize(get()), "cudaStreamSynchronize"); }

  // Later work starts after what the event stands for.
  void wait(const Event& event) const {
    gpu::check(cudaStreamWaitEvent(get(), event.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  }

  // Later work starts after the work given so far to `other`, of any GPU. One thread at a time: each stream
  // has one event for those that wait for it. It may be recorded anew, for they wait for what it stood for.
  void wait(const Stream& other) const {
    other.end_.record(other);
    wait(other.end_);
  }

  // Writes the time (steady_time) at which the work given so far is done. Later work waits until it is
  // written.
  void stamp(std::int64_t* time) const {
    const auto write = [](void* to) { *static_cast<std::int64_t*>(to) = steady_time(); };
    gpu::check(cudaLaunchHostFunc(get(), write, time), "cudaLaunchHostFunc");
  }

  // Enqueues kernel(lane, params) for every lane of every block of the grid. The stream is on the calling
  // thread's GPU.
  template <class K>
  void launch(const K&, simt::Dim3 grid, const simt::params_of<K>& params) const {
    cudaLaunchConfig_t config = {};
    config.gridDim = gpu::checked_grid(K::name, grid);
    config.blockDim = dim3(K::threads);
    config.dynamicSmemBytes = K::shared_bytes;
    config.stream = get();
    gpu::allow_shared_memory<K>(gpu_);
    gpu::check(cudaLaunchKernelEx(&config, simt::entry<K>, params), K::name);
  }

  // Memory for an operation; the next call may give the same, or more.
  void* scratch(std::size_t bytes) const { return kept<gpu::Scratch>().at_least(bytes); }

  // What profilers show, as a range of the calling thread.
  void begin_range(const char* name) const { nvtxRangePushA(name); }
  void end_range() const { nvtxRangePop(); }

  // What operations keep with the stream from call to call, such as a workspace: one R, made by
  // R(cudaStream_t) on the stream's GPU when it is first asked for. It goes with the stream, before the
  // stream itself.
  template <class R>
  R& kept() const {
    static char key;  // its address stands for R
    for (const auto& [of, object] : kept_) {
      if (of == &key) return *static_cast<R*>(object.get());
    }
    const auto made = gpu::on_gpu(gpu_, [&] { return std::make_shared<R>(get()); });
    kept_.emplace_back(&key, made);
    return *made;
  }

 private:
  // On the calling thread's GPU, which is `gpu`.
  Stream(int gpu, gpu::Priority priority) : gpu_(gpu), stream_(gpu::make_stream(priority)) {}

  int gpu_;
  gpu::StreamHandle stream_;
  Event end_;  // of the work given to it, when another was told to wait
  mutable std::vector<std::pair<const void*, std::shared_ptr<void>>> kept_;
};

inline void Cuda::Event::record(const Stream& stream) const {
  gpu::check(cudaEventRecord(get(), stream.get()), "cudaEventRecord");
}

}  // namespace trilith::inline v0
