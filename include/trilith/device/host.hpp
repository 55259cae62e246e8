// Device<Host>: the cores of this machine. Memory is ordinary memory, and a stream is the calling thread:
// work given to it is done when the call returns, by a team of OpenMP threads.
//
// OpenMP, and no pool of our own, because oneDNN computes on OpenMP: a second pool would fight it for the
// cores.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <trilith/core/error.hpp>
#include <trilith/core/recorder.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

struct Host {
  class Stream;
  class Memory;
  class Allocation;

  using stream = Stream;
  using memory = Memory;
  using allocation = Allocation;

  static constexpr const char* name = "Host";
  template <class Element>
  static constexpr bool computes_with = std::same_as<Element, float>;
};

// Where the work of one rank is done: this thread and, in parallel loops, threads() − 1 helpers.
class Host::Stream : public ops::ImmediateStream {
 public:
  explicit Stream(int threads = 1) : threads_(std::max(threads, 1)) {}
  explicit Stream(const Place& place) : Stream(place.threads) {}

  int threads() const { return threads_; }

  // Threads worth their start for `work` pieces: one for each `grain` of them, from 1 to threads().
  int team(Index work, Index grain) const {
    return static_cast<int>(std::clamp<Index>(work / grain + (work % grain > 0), 1, threads_));
  }

  // Calls body(first, last) for equal parts of [0, count), one for each thread of team(count, grain). The
  // parts depend only on count, grain and threads().
  template <class Body>
  void parallel_for(Index count, Index grain, Body&& body) const {
    const int parts = team(count, grain);
    if (parts == 1) {
      if (count > 0) body(Index{0}, count);
      return;
    }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (Index part = 0; part < parts; ++part) {
      body(count * part / parts, count * (part + 1) / parts);
    }
  }

  // Returns when all work given to the stream is done: at once, since each call has finished it.
  void synchronize() const {}

  // Writes the time (steady_time) at which the work given so far is done: now.
  void stamp(std::int64_t* time) const {
    *time = steady_time();
  }

 private:
  int threads_;
};

// One rank's memory: aligned to 64 bytes, in huge pages where the system grants them, counted.
class Host::Memory {
 public:
  // `poison` fills what is allocated with NaN, so that a read before a write shows.
  explicit Memory(bool poison = false) : poison_(poison) {}
  explicit Memory(const Place& place) : Memory(place.poison) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Whole pages. Throws Error where the system gives none, and where all that this program has allocated
  // would be more than limit(): pages are given when they are first written, and by then it would be killed.
  [[nodiscard]] Allocation allocate(std::size_t bytes);

  // Bytes: the machine's memory, or less where a control group bounds it.
  static std::size_t limit();

  std::size_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  std::size_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }

 private:
  friend class Allocation;

  // An allocation of `bytes` has begun or ended.
  void add(std::size_t bytes);
  void subtract(std::size_t bytes) {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    all_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  static constexpr const char* advice =
      "use a smaller model, batch or sequence, or more ranks on more machines";
  static inline std::atomic<std::size_t> all_ = 0;  // in use of all Memory of this program

  bool poison_;
  std::atomic<std::size_t> in_use_ = 0;
  std::atomic<std::size_t> peak_ = 0;
};

// Owns a piece of a Memory, which must outlive it.
class Host::Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Allocation() {
    if (data_ == nullptr) return;
    ::munmap(data_, bytes_);
    memory_->subtract(bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  friend class Memory;

  void swap(Allocation& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Memory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

inline std::size_t Host::Memory::limit() {
  static const std::size_t limit = [] {
    std::size_t least = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
      std::size_t bytes = 0;
      if (std::ifstream(path) >> bytes) least = std::min(least, bytes);
    }
    return least;
  }();
  return limit;
}

inline void Host::Memory::add(std::size_t bytes) {
  const std::size_t others = all_.fetch_add(bytes);
  if (bytes > limit() || others > limit() - bytes) {
    all_.fetch_sub(bytes);
    throw Error("cannot allocate " + std::to_string(bytes) + " bytes of host memory: this program has " +
                    std::to_string(others) + " of the " + std::to_string(limit()) + " that there are",
                advice);
  }
  const std::size_t now = in_use_.fetch_add(bytes) + bytes;
  std::size_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
}

inline Host::Allocation Host::Memory::allocate(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  constexpr std::size_t most = std::size_t{1} << 62;
  const std::size_t whole = round_up(std::clamp<std::size_t>(bytes, 1, most), page);
  add(whole);
  void* const mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    subtract(whole);
    throw Error("the system gives no " + std::to_string(whole) + " bytes of host memory", advice);
  }
  ::madvise(mapped, whole, MADV_HUGEPAGE);  // a hint: failure changes nothing but speed
  if (poison_) std::memset(mapped, 0xFF, whole);
  Allocation allocation;
  allocation.memory_ = this;
  allocation.data_ = static_cast<std::byte*>(mapped);
  allocation.bytes_ = whole;
  return allocation;
}

static_assert(device<Host>);

}  // namespace trilith::inline v0
