// All that the machine is made of, for the sources of the imitation, and how each of their functions begins
// and ends.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <trilith/simt/emulator.hpp>

#include "test/cuda_runtime/machine/calls.hpp"
#include "test/cuda_runtime/machine/enqueue.hpp"
#include "test/cuda_runtime/machine/machine.hpp"
#include "test/cuda_runtime/machine/memory_map.hpp"
#include "test/cuda_runtime/machine/queues.hpp"

struct CUevent_st {
  int device;
  bool timing;
  std::shared_ptr<const Point> recorded = nullptr;
};

struct cublasLtContext {
  int device;
};

namespace trilith::test::imitation {

// Objects of which the program has handles.
template <class T>
class Handles {
 public:
  template <class... Fields>
  T* make(Fields&&... fields) {
    objects_.push_back(std::unique_ptr<T>(new T{std::forward<Fields>(fields)...}));
    return objects_.back().get();
  }
  bool has(const T* handle) const { return place_of(handle) != objects_.end(); }
  // False where there is no such object.
  bool destroy(const T* handle) {
    const auto place = place_of(handle);
    if (place == objects_.end()) return false;
    objects_.erase(place);
    return true;
  }
  int count() const { return static_cast<int>(objects_.size()); }

 private:
  auto place_of(const T* handle) const {
    return std::find_if(objects_.begin(), objects_.end(),
                        [&](const auto& each) { return each.get() == handle; });
  }
  std::vector<std::unique_ptr<T>> objects_;
};

struct State {
  explicit State(const Options& of_test)
      : options(of_test),
        queues(of_test.seed),
        prompt({.seed = 0, .landing = simt::Landing::at_once}),
        shuffled({.seed = of_test.seed, .landing = simt::Landing::late}) {}

  // From now on nothing is done any more.
  void fail_for_good(cudaError_t status, const std::string& text) {
    if (fault != cudaSuccess) return;
    fault = status;
    fault_text = text;
    queues.drop_all();
  }

  const Options options;
  Calls calls;
  Queues queues;
  MemoryMap memory;
  Handles<CUevent_st> events;
  Handles<CUmemPoolHandle_st> pools;
  Handles<cublasLtContext> handles;
  int ranges = 0;
  cudaError_t fault = cudaSuccess;
  std::string fault_text;
  simt::Emulator prompt;
  simt::Emulator shuffled;
};

extern std::mutex mutex;
State& state();  // under the lock

// The calling thread's GPU.
extern thread_local int current_device;

// Keeps what cudaGetLastError() answers.
cudaError_t noted(cudaError_t status);

// A function of the runtime: counts the call, and answers what body(state) does unless it is to fail. `name`
// is the function's own.
template <class Body>
cudaError_t call(const Body& body, const char* name = __builtin_FUNCTION()) {
  const std::lock_guard lock(mutex);
  State& s = state();
  if (const int told = s.calls.begin(name)) return noted(static_cast<cudaError_t>(told));
  if (s.fault != cudaSuccess) return noted(s.fault);
  const cudaError_t status = body(s);
  s.queues.drift();
  return noted(s.fault != cudaSuccess ? s.fault : status);
}

// The same of one that gives something back, which it does even when all is broken.
template <class Body>
cudaError_t closing_call(const Body& body, const char* name = __builtin_FUNCTION()) {
  const std::lock_guard lock(mutex);
  State& s = state();
  s.calls.begin(name);
  const cudaError_t status = body(s);
  return noted(s.fault != cudaSuccess ? s.fault : status);
}

// Enqueues work, in a call of the runtime.
cudaError_t enqueue_work(State& s, const char* name, cudaStream_t stream, std::vector<Range> touched,
                         std::function<void()> work);

}  // namespace trilith::test::imitation
