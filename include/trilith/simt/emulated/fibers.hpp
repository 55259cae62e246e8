// Fibers that take turns on one thread: the lanes of a block.
//
// A fiber runs until it waits or ends, and then the next one that is ready goes on, straight from one to the
// other. Who is next is first come, first served, or with a seed other than 0 drawn from it. Nothing is
// allocated after the first run.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>

#include <trilith/simt/emulated/stack_switches.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

// xorshift64*: S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016.
class QuickRandom {
 public:
  explicit QuickRandom(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u | 1u) {}

  // At random below `bound`, which is small.
  int below(int bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const auto high = static_cast<std::uint32_t>((state_ * 0x2545F4914F6CDD1Du) >> 32);
    return static_cast<int>((std::uint64_t{high} * static_cast<std::uint64_t>(bound)) >> 32);
  }

 private:
  std::uint64_t state_;
};

// Stacks side by side in one mapping, each above a page that may not be touched. Pages cost memory once they
// are used.
class Stacks {
 public:
  static constexpr std::size_t guard_bytes = 4096;
  static constexpr std::size_t usable_bytes = (std::size_t{256} << 10) - guard_bytes;

  explicit Stacks(int count) : bytes_(count * stack_bytes) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
    for (int i = 0; i < count; ++i) mprotect(base_ + i * stack_bytes, guard_bytes, PROT_NONE);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() {
    forget_frames(base_, bytes_);
    munmap(base_, bytes_);
  }

  const std::byte* low(int i) const { return base_ + i * stack_bytes + guard_bytes; }

  boost::context::preallocated operator[](int i) const {
    boost::context::stack_context context;
    context.size = usable_bytes;
    context.sp = base_ + (i + 1) * stack_bytes;
    return {context.sp, context.size, context};
  }

 private:
  static constexpr std::size_t stack_bytes = usable_bytes + guard_bytes;

  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

class Fibers {
 public:
  static constexpr int most = most_threads;

  explicit Fibers(std::uint64_t seed)
      : shuffled_(seed != 0), random_(seed), ready_(most), noted_(most + 1), fibers_(most + 1) {}

  // Runs body(0) … body(count - 1), each on a fiber. Where none can go on although not all have ended, calls
  // stuck(), which throws. What a body throws ends them all, and comes out of here.
  template <class Body, class Stuck>
  void run(int count, const Body& body, const Stuck& stuck) {
    prepare(count);
    for (int i = 0; i < count; ++i) {
      note_fresh(noted_[i]);
      fibers_[i] = Fiber(std::allocator_arg, (*stacks_)[i], KeptStack{},
                         [this, i, &body](Fiber&& previous) { return life(i, body, std::move(previous)); });
      wake(i);
    }
    switch_to(next());
    if (ended_ < count && !error_) {
      try {
        stuck();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    // Those that are left unwind their stacks.
    cancelled_ = true;
    for (int i = 0; ended_ < count; ++i) {
      if (fibers_[i]) switch_to(i);
    }
    if (error_) std::rethrow_exception(error_);
  }

  // For the running fiber: others go on until someone wakes it.
  void wait() {
    switch_to(next());
    if (cancelled_) throw Cancelled{};
  }

  // Fiber i, which waits, is ready to go on.
  void wake(int i) { ready_[(head_ + waiting_++) % most] = i; }

 private:
  using Fiber = boost::context::fiber;
  static constexpr int main = most;  // the caller of run()

  struct Cancelled {};

  // The stacks outlive the fibers.
  struct KeptStack {
    boost::context::stack_context allocate() { return {}; }
    void deallocate(boost::context::stack_context&) {}
  };

  void prepare(int count) {
    if (count > capacity_) {
      stacks_ = std::make_unique<Stacks>(count);
      capacity_ = count;
      for (int i = 0; i < count; ++i) noted_[i] = {stacks_->low(i), Stacks::usable_bytes, nullptr};
    }
    head_ = waiting_ = ended_ = 0;
    current_ = main;
    cancelled_ = false;
    error_ = nullptr;
  }

  template <class Body>
  Fiber life(int i, const Body& body, Fiber&& previous) {
    note_arrival(noted_[i], noted_[left_]);
    fibers_[left_] = std::move(previous);
    try {
      if (!cancelled_) body(i);
    } catch (const Cancelled&) {
    } catch (...) {
      error_ = std::current_exception();
    }
    ++ended_;
    Fiber other = leave_for(error_ || cancelled_ ? main : next());
    note_departure(nullptr, noted_[current_]);
    return other;
  }

  // Who goes on now; the caller of run() if nobody is ready.
  int next() {
    if (waiting_ == 0) return main;
    if (shuffled_) std::swap(ready_[head_ % most], ready_[(head_ + random_.below(waiting_)) % most]);
    --waiting_;
    return ready_[head_++ % most];
  }

  Fiber leave_for(int i) {
    left_ = std::exchange(current_, i);
    return std::move(fibers_[i]);
  }

  void switch_to(int i) {
    const int self = current_;
    if (i == self) return;
    Fiber other = leave_for(i);
    note_departure(&noted_[self], noted_[i]);
    Fiber previous = std::move(other).resume();
    note_arrival(noted_[self], noted_[left_]);
    fibers_[left_] = std::move(previous);  // of whoever left to come here; none if it ended
  }

  bool shuffled_;
  QuickRandom random_;
  std::vector<int> ready_;  // a ring of those that are ready, from head_ on
  unsigned head_ = 0;
  int waiting_ = 0;
  int ended_ = 0;
  int current_ = main;  // who runs
  int left_ = main;     // who ran before
  bool cancelled_ = false;
  std::exception_ptr error_;
  int capacity_ = 0;
  std::unique_ptr<Stacks> stacks_;
  std::vector<NotedStack> noted_;
  std::vector<Fiber> fibers_;  // destroyed before their stacks
};

}  // namespace trilith::inline v0::simt
