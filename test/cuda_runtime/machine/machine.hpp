// A machine with GPUs that are none: an imitation of the CUDA runtime, cuBLASLt, CUB, Thrust and NVTX, so
// that Device<Cuda> runs where there is no GPU. This is what a test says to it and asks of it.
//
// It does as the toolkit's documentation says: the order of work by streams and events (queues.hpp), when
// memory is there and who may touch it (memory_map.hpp), what refuses wrong handles and wrong devices
// (runtime.cc), and what is computed: kernels by the emulator of simt/emulator.hpp, products by loops in
// float32 (cublas_lt.cc). Where the documentation leaves a choice, chance takes it. What goes wrong in work
// that was enqueued is a fault: from then on every call answers with it, as on a GPU.
//
// It does not imitate: time; the bits of tensor cores; two pieces of work at once, for one runs at a time and
// to its end; registers and occupancy. All threads use one machine, under one lock.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

namespace trilith::test::imitation {

struct Options {
  std::uint64_t seed = 1;  // of every choice; the order in which threads call is beyond it
  int gpus = 2;
  bool reach_each_other = true;              // the GPUs' memory
  std::size_t bytes = std::size_t{2} << 30;  // of each GPU
  bool cublas_has_epilogues = true;          // or its heuristic knows plain products only
};

// Begins anew, with another machine. Nothing of the old one may be in use.
void plug_in(const Options& options);

// The n-th call from now, 1 being the next, of that name, as "cudaEventRecord", answers the status and does
// nothing. It must not be one that gives something back: of those no answer is looked at.
void fail(const std::string& call, std::int64_t n, cudaError_t status);
void fail(const std::string& call, std::int64_t n, cublasStatus_t status);
// How often it was called.
std::int64_t calls(const std::string& call);

// What was made and is not destroyed.
struct Live {
  int streams = 0;
  int events = 0;
  int pools = 0;
  int allocations = 0;
  int pinned = 0;   // allocations of the host's memory
  int handles = 0;  // of cuBLASLt
  int ranges = 0;   // of NVTX
  friend bool operator==(const Live&, const Live&) = default;
  friend std::ostream& operator<<(std::ostream& to, const Live& live) {
    return to << live.streams << " streams, " << live.events << " events, " << live.pools << " pools, "
              << live.allocations << " allocations, " << live.pinned << " pinned ones, " << live.handles
              << " handles, " << live.ranges << " ranges";
  }
};
Live live();

// What went wrong in work that was enqueued; empty where nothing did.
std::string fault();

// Whether memory was written to after it was given back.
bool disturbed();

}  // namespace trilith::test::imitation
