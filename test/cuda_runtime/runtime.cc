// The functions of include/cuda_runtime_api.h: see the "CUDA Runtime API" for what each must do.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/cuda_runtime/machine/state.hpp"

using namespace trilith::test::imitation;

namespace {

struct Meaning {
  cudaError_t status;
  const char* name;
  const char* text;
};
constexpr Meaning meanings[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported", "peer access is not supported"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};
const Meaning& meaning(cudaError_t status) {
  for (const Meaning& each : meanings) {
    if (each.status == status) return each;
  }
  static constexpr Meaning none = {cudaSuccess, "unrecognized error code", "unrecognized error code"};
  return none;
}

constexpr int least_priority = 0;
constexpr int greatest_priority = -5;

thread_local cudaError_t last_error = cudaSuccess;

bool is_device(const State& s, int device) {
  return device >= 0 && device < s.options.gpus;
}

// Takes memory for the stream's GPU, there from the stream's present end on.
cudaError_t give(State& s, void** data, std::size_t bytes, const CUmemPoolHandle_st* pool,
                 cudaStream_t stream) {
  if (!s.queues.is_open(stream)) return cudaErrorInvalidResourceHandle;
  const int device = pool != nullptr ? pool->device : stream->device;
  if (device != stream->device) return cudaErrorInvalidValue;
  const std::size_t left = s.options.bytes - s.memory.used(device);
  if (bytes > left) return cudaErrorMemoryAllocation;
  *data = s.memory.give(bytes, device, pool);
  s.queues.add(stream, [&s, at = *data] { s.memory.begin(at); });
  return cudaSuccess;
}

}  // namespace

namespace trilith::test::imitation {

thread_local int current_device = 0;

cudaError_t noted(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

cudaError_t enqueue_work(State& s, const char* name, cudaStream_t stream, std::vector<Range> touched,
                         std::function<void()> work) {
  if (!s.queues.is_open(stream)) return cudaErrorInvalidResourceHandle;
  s.queues.add(
      stream, [&s, name, device = stream->device, touched = std::move(touched), work = std::move(work)] {
        for (const Range& range : touched) {
          const std::string objection = s.memory.objection(range.data, range.bytes, device);
          if (objection.empty()) continue;
          return s.fail_for_good(cudaErrorIllegalAddress, std::string(name) + " touches " + objection);
        }
        work();
      });
  return cudaSuccess;
}

cudaError_t enqueue(const char* name, cudaStream_t stream, std::vector<Range> touched,
                    std::function<void()> work) {
  return call([&](State& s) { return enqueue_work(s, name, stream, std::move(touched), std::move(work)); },
              name);
}

}  // namespace trilith::test::imitation

const char* cudaGetErrorName(cudaError_t error) {
  return meaning(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return meaning(error).text;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&](State& s) {
    *count = s.options.gpus;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call([&](State&) {
    *device = current_device;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call([&](State& s) {
    if (!is_device(s, device)) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call([&](State& s) {
    s.queues.finish_device(current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&](State& s) {
    if (!is_device(s, device) || !is_device(s, peer)) return cudaErrorInvalidDevice;
    *can = device != peer && s.options.reach_each_other ? 1 : 0;
    return cudaSuccess;
  });
}

// What is a hint is not heeded.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&](State& s) {
    if (flags != cudaStreamNonBlocking || priority > least_priority || priority < greatest_priority) {
      return cudaErrorInvalidValue;
    }
    *stream = s.queues.open(current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&](State&) {
    *least = least_priority;
    *greatest = greatest_priority;
    return cudaSuccess;
  });
}
// What is in its queue is still done.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return closing_call([&](State& s) {
    if (!s.queues.is_open(stream)) return cudaErrorInvalidResourceHandle;
    stream->open = false;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](State& s) {
    if (!s.queues.is_open(stream)) return cudaErrorInvalidResourceHandle;
    s.queues.finish(stream);
    return cudaSuccess;
  });
}
// For the event as it was recorded last; for nothing where it never was.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&](State& s) {
    if (!s.queues.is_open(stream) || !s.events.has(event)) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    if (event->recorded != nullptr) s.queues.wait(stream, event->recorded);
    return cudaSuccess;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&](State& s) {
    return enqueue_work(s, "cudaLaunchHostFunc", stream, {}, [function, data] { function(data); });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](State& s) {
    *event = s.events.make(current_device, (flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}
// Who waits for it goes on waiting.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return closing_call(
      [&](State& s) { return s.events.destroy(event) ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](State& s) {
    if (!s.queues.is_open(stream) || !s.events.has(event)) return cudaErrorInvalidResourceHandle;
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    event->recorded = s.queues.mark(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](State& s) {
    if (!s.events.has(event)) return cudaErrorInvalidResourceHandle;
    if (const auto point = event->recorded) s.queues.finish(*point);
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&](State& s) {
    for (const cudaEvent_t event : {begin, end}) {
      if (!s.events.has(event) || !event->timing || event->recorded == nullptr) {
        return cudaErrorInvalidResourceHandle;
      }
      if (!event->recorded->reached) return cudaErrorNotReady;
    }
    if (begin->device != end->device) return cudaErrorInvalidResourceHandle;
    const auto time = end->recorded->time - begin->recorded->time;
    *milliseconds = std::chrono::duration<float, std::milli>(time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return call([&](State& s) {
    if (!is_device(s, properties->location.id)) return cudaErrorInvalidDevice;
    *pool = s.pools.make(properties->location.id);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return closing_call(
      [&](State& s) { return s.pools.destroy(pool) ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list, std::size_t count) {
  return call([&](State& s) {
    if (!s.pools.has(pool)) return cudaErrorInvalidResourceHandle;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_device(s, list[i].location.id) || !s.options.reach_each_other) return cudaErrorInvalidDevice;
      pool->readers.insert(list[i].location.id);
    }
    return cudaSuccess;
  });
}
cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return call([&](State& s) {
    if (!s.pools.has(pool)) return cudaErrorInvalidResourceHandle;
    return give(s, data, bytes, pool, stream);
  });
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  return call([&](State& s) { return give(s, data, bytes, nullptr, stream); });
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  return closing_call([&](State& s) {
    if (!s.queues.is_open(stream)) return cudaErrorInvalidResourceHandle;
    if (!s.memory.close(data, false)) return cudaErrorInvalidValue;
    s.queues.add(stream, [&s, data] { s.memory.end(data); });
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  return call([&](State& s) {
    *all = s.options.bytes;
    *left = *all - s.memory.used(current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return call([&](State& s) {
    *data = s.memory.give(bytes, MemoryMap::host);
    s.memory.begin(*data);
    return cudaSuccess;
  });
}
// At once, whatever work is left that uses it.
cudaError_t cudaFreeHost(void* data) {
  return closing_call([&](State& s) {
    if (!s.memory.close(data, true)) return cudaErrorInvalidValue;
    s.memory.end(data);
    return cudaSuccess;
  });
}

// From ordinary memory of the host it is read before the call returns; to such memory it "might be
// synchronous with respect to the host" (CUDA Runtime API, "API synchronization behavior"), and is not here.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&](State& s) {
    using Kind = MemoryMap::Kind;
    const bool to_gpu = kind != cudaMemcpyDeviceToHost;
    const bool from_gpu = kind != cudaMemcpyHostToDevice;
    if ((s.memory.kind(to) == Kind::of_gpu) != to_gpu) return cudaErrorInvalidValue;
    if ((s.memory.kind(from) == Kind::of_gpu) != from_gpu) return cudaErrorInvalidValue;
    std::vector<Range> touched;
    if (s.memory.kind(to) != Kind::other) touched.push_back({to, bytes});
    if (s.memory.kind(from) != Kind::other) {
      touched.push_back({from, bytes});
      return enqueue_work(s, "cudaMemcpyAsync", stream, touched, [=] { std::memcpy(to, from, bytes); });
    }
    const auto* const first = static_cast<const std::byte*>(from);
    return enqueue_work(
        s, "cudaMemcpyAsync", stream, touched,
        [to, staged = std::vector(first, first + bytes)] { std::memcpy(to, staged.data(), staged.size()); });
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&](State& s) {
    return enqueue_work(s, "cudaMemsetAsync", stream, {{to, bytes}}, [=] { std::memset(to, value, bytes); });
  });
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return call([&](State& s) {
    if (width > pitch) return cudaErrorInvalidValue;
    const std::size_t bytes = width == 0 || height == 0 ? 0 : (height - 1) * pitch + width;
    return enqueue_work(s, "cudaMemset2DAsync", stream, {{to, bytes}}, [=] {
      for (std::size_t row = 0; row < height; ++row) {
        std::memset(static_cast<std::byte*>(to) + row * pitch, value, width);
      }
    });
  });
}
