// Device<Host>: the cores of this machine. Memory is ordinary memory, and a stream is the calling thread:
// work given to it is done when the call returns, by a team of OpenMP threads.
//
// OpenMP, and no pool of our own, because oneDNN computes on OpenMP: a second pool would fight it for the
// cores.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <trilith/core/error.hpp>
#include <trilith/core/recorder.hpp>
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
};

// Where the work of one rank is done: this thread and, in parallel loops, threads() − 1 helpers.
class Host::Stream : public ops::Stream {
 public:
  explicit Stream(int threads = 1) : threads_(std::max(threads, 1)) {}

  int threads() const { return threads_; }

  // Calls body(first, last) for equal parts of [0, count), one a thread, and no more of them than there are
  // `grain`s in count. The parts depend only on count, grain and threads().
  template <class Body>
  void parallel_for(Index count, Index grain, Body&& body) const {
    const Index parts = std::min<Index>(threads_, (count + grain - 1) / std::max<Index>(grain, 1));
    if (parts <= 1) {
      if (count > 0) body(Index{0}, count);
      return;
    }
    const int team = static_cast<int>(parts);
#pragma omp parallel for num_threads(team) schedule(static, 1)
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
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Whole pages. Throws Error where the system gives none.
  [[nodiscard]] Allocation allocate(std::size_t bytes);

  std::size_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  std::size_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }

 private:
  friend class Allocation;

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
    memory_->in_use_.fetch_sub(bytes_, std::memory_order_relaxed);
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

inline Host::Allocation Host::Memory::allocate(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  Allocation allocation;
  allocation.memory_ = this;
  allocation.bytes_ = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  void* const mapped =
      ::mmap(nullptr, allocation.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapped != MAP_FAILED,
          "cannot allocate " + std::to_string(allocation.bytes_) + " bytes of host memory",
          "use a smaller model, batch or sequence, or more ranks on more machines");
  ::madvise(mapped, allocation.bytes_, MADV_HUGEPAGE);  // a hint: failure changes nothing but speed
  allocation.data_ = static_cast<std::byte*>(mapped);
  if (poison_) std::memset(allocation.data_, 0xFF, allocation.bytes_);

  const std::size_t now = in_use_.fetch_add(allocation.bytes_) + allocation.bytes_;
  std::size_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
  return allocation;
}

static_assert(device<Host>);

}  // namespace trilith::inline v0
