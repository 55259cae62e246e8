// The machine, its launches, and the imitation of NVTX.
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "test/cuda_runtime/machine/running.hpp"
#include "test/cuda_runtime/machine/state.hpp"

namespace trilith::test::imitation {

std::mutex mutex;

namespace {

std::unique_ptr<State> the_machine = std::make_unique<State>(Options{});
Running* running = nullptr;

// What cudaFuncSetAttribute has allowed, by GPU. It holds for the life of the program.
std::map<std::pair<int, const void*>, std::size_t>& allowed_shared_bytes() {
  static std::map<std::pair<int, const void*>, std::size_t> bytes;
  return bytes;
}

simt::Dim3 extents(dim3 of) {
  return {static_cast<int>(of.x), static_cast<int>(of.y), static_cast<int>(of.z)};
}

void run(State& s, const Launch& launch, const std::function<void()>& body) {
  simt::Emulator& emulator = s.queues.below(2) == 0 ? s.prompt : s.shuffled;
  Running of_launch{emulator, extents(launch.grid), extents(launch.block), launch.shared_bytes};
  running = &of_launch;
  try {
    body();
  } catch (const std::exception& error) {
    s.fail_for_good(cudaErrorLaunchFailure, error.what());
  }
  running = nullptr;
}

void fail_with(const std::string& call, std::int64_t n, int status) {
  const std::lock_guard lock(mutex);
  the_machine->calls.fail(call, n, status);
}

}  // namespace

State& state() {
  return *the_machine;
}

Running& running_launch() {
  return *running;
}

cudaError_t launch(const Launch& launch, std::vector<std::uintptr_t> words, std::function<void()> body,
                   cudaStream_t stream) {
  const auto enqueue_launch = [&](State& s) {
    if (!s.queues.is_open(stream) || stream->device != current_device) return cudaErrorInvalidResourceHandle;
    constexpr std::size_t granted = 48 << 10;
    const auto allowed = allowed_shared_bytes().find({stream->device, launch.kernel});
    if (launch.shared_bytes > (allowed == allowed_shared_bytes().end() ? granted : allowed->second)) {
      return cudaErrorInvalidValue;
    }
    return enqueue_work(
        s, "cudaLaunchKernelEx", stream, {},
        [&s, launch, words = std::move(words), body = std::move(body), device = stream->device] {
          for (const std::uintptr_t word : words) {
            const std::string objection = s.memory.objection_to_word(word, device);
            if (objection.empty()) continue;
            return s.fail_for_good(cudaErrorIllegalAddress, "a kernel is given the address of " + objection);
          }
          run(s, launch, body);
        });
  };
  return call(enqueue_launch, "cudaLaunchKernelEx");
}

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute, int value) {
  return call(
      [&](State&) {
        if (value < 0 || value > (227 << 10)) return cudaErrorInvalidValue;
        allowed_shared_bytes()[{current_device, kernel}] = static_cast<std::size_t>(value);
        return cudaSuccess;
      },
      "cudaFuncSetAttribute");
}

void plug_in(const Options& options) {
  const std::lock_guard lock(mutex);
  the_machine = std::make_unique<State>(options);
}

void fail(const std::string& call, std::int64_t n, cudaError_t status) {
  fail_with(call, n, status);
}
void fail(const std::string& call, std::int64_t n, cublasStatus_t status) {
  fail_with(call, n, status);
}

std::int64_t calls(const std::string& call) {
  const std::lock_guard lock(mutex);
  return the_machine->calls.count(call);
}

Live live() {
  const std::lock_guard lock(mutex);
  const State& s = *the_machine;
  return {.streams = s.queues.open_streams(),
          .events = s.events.count(),
          .pools = s.pools.count(),
          .allocations = s.memory.open_blocks(false),
          .pinned = s.memory.open_blocks(true),
          .handles = s.handles.count(),
          .ranges = s.ranges};
}

std::string fault() {
  const std::lock_guard lock(mutex);
  return the_machine->fault_text;
}

bool disturbed() {
  const std::lock_guard lock(mutex);
  return the_machine->memory.disturbed();
}

}  // namespace trilith::test::imitation

int nvtxRangePushA(const char*) {
  const std::lock_guard lock(trilith::test::imitation::mutex);
  return trilith::test::imitation::state().ranges++;
}
int nvtxRangePop() {
  const std::lock_guard lock(trilith::test::imitation::mutex);
  return --trilith::test::imitation::state().ranges;
}
