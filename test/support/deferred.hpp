// Device<Deferred>: the host's operations, done late. Each stream is a queue that nothing leaves before
// synchronize(), and then in an order of the test's choice, one of those that the streams' waits allow. So an
// operation that is not told to wait for what it needs is done too early in one of them, as it may be on a
// GPU.
//
// It is for the order that layers ask of streams: whole models in many orders, to the bits of the host. How
// Device<Cuda> keeps that order, test/cuda_runtime/ tests.
#pragma once

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/recorder.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/device/side_stream.hpp>
#include <trilith/ops/host.hpp>

namespace trilith::test {

struct Deferred {
  class Machine;
  class Stream;

  using stream = Stream;
  using memory = Host::Memory;
  using allocation = Host::Allocation;

  static constexpr const char* name = "Deferred";
  template <class Element>
  static constexpr bool computes_with = std::same_as<Element, float>;
};

// All streams of one rank or of several, and what they have yet to do.
class Deferred::Machine {
 public:
  // The end of the work that a stream has been given so far.
  struct Point {
    std::size_t stream;
    std::size_t works;
  };

  // Of the streams that can go on, the one that goes.
  enum class Order { oldest_first, youngest_first, shuffled };

  explicit Machine(Order order, unsigned seed = 0, int ranks = 1)
      : order_(order), random_(seed), ranks_(ranks) {}

  std::size_t add_stream() {
    const std::lock_guard lock(mutex_);
    streams_.emplace_back();
    return streams_.size() - 1;
  }

  void give(std::size_t stream, std::string name, std::function<void()> run) {
    const std::lock_guard lock(mutex_);
    streams_[stream].work.push_back({.name = std::move(name), .run = std::move(run)});
  }

  Point end_of(std::size_t stream) const {
    const std::lock_guard lock(mutex_);
    return {stream, streams_[stream].work.size()};
  }
  // Later work of `stream` is done after that.
  void wait(std::size_t stream, Point point) {
    const std::lock_guard lock(mutex_);
    streams_[stream].work.push_back({.after = point});
  }

  // Does all of it, when every rank has come here.
  void run() {
    std::unique_lock lock(mutex_);
    if (++arrived_ < ranks_) {
      const int round = round_;
      if (!all_done_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ > round; })) {
        throw std::runtime_error("a rank has not come to do its work");
      }
      return;
    }
    arrived_ = 0;
    do_all();
    ++round_;
    all_done_.notify_all();
  }

  const Host::Stream host;
  std::vector<std::string> log = {};  // what has been done, in order

 private:
  struct Work {
    std::string name = {};
    std::function<void()> run = {};  // none: a wait
    Point after = {0, 0};
  };
  struct Queue {
    std::vector<Work> work;
    std::size_t done = 0;
  };

  void do_all() {
    for (std::vector<std::size_t> ready = find_ready(); !ready.empty(); ready = find_ready()) {
      const std::size_t pick = order_ == Order::oldest_first     ? 0
                               : order_ == Order::youngest_first ? ready.size() - 1
                                                                 : random_() % ready.size();
      Queue& queue = streams_[ready[pick]];
      const Work work = std::move(queue.work[queue.done++]);  // what it holds goes with it
      if (!work.run) continue;
      work.run();
      log.push_back(work.name);
    }
  }

  std::vector<std::size_t> find_ready() const {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const auto& [work, done] = streams_[i];
      if (done == work.size()) continue;
      const Point after = work[done].after;
      if (streams_[after.stream].done >= after.works) ready.push_back(i);
    }
    return ready;
  }

  Order order_;
  std::mt19937 random_;
  int ranks_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<Queue> streams_;
  std::condition_variable all_done_;
  int arrived_ = 0;
  int round_ = 0;
};

class Deferred::Stream : public ops::Stream {
 public:
  explicit Stream(std::shared_ptr<Machine> machine)
      : machine_(std::move(machine)), index_(machine_->add_stream()) {}
  explicit Stream(Machine::Order order, unsigned seed = 0) : Stream(std::make_shared<Machine>(order, seed)) {}
  explicit Stream(const Place& /*place*/) : Stream(Machine::Order::oldest_first) {}

  Machine& machine() const { return *machine_; }
  std::size_t index() const { return index_; }

  void give(std::string name, std::function<void()> run) const {
    machine_->give(index_, std::move(name), std::move(run));
  }
  void synchronize() const { machine_->run(); }
  void stamp(std::int64_t* time) const {
    give("stamp", [time] { *time = steady_time(); });
  }

  Stream branch() const { return Stream(machine_); }
  void wait(const Stream& other) const { machine_->wait(index_, machine_->end_of(other.index_)); }

 private:
  std::shared_ptr<Machine> machine_;
  std::size_t index_;
};

static_assert(device<Deferred> && branching_stream<Deferred::Stream>);

#define TRILITH_TEST_DEFER(OPERATION)                                                                      \
  template <class... Arguments>                                                                            \
  void OPERATION(const Deferred::Stream& s, Arguments... arguments) {                                      \
    s.give(#OPERATION, [&machine = s.machine(), arguments...] { OPERATION(machine.host, arguments...); }); \
  }
TRILITH_TEST_DEFER(add)
TRILITH_TEST_DEFER(add_bias)
TRILITH_TEST_DEFER(add_bias_gelu)
TRILITH_TEST_DEFER(add_bias_residual)
TRILITH_TEST_DEFER(add_bias_residual_layer_norm)
TRILITH_TEST_DEFER(add_positions)
TRILITH_TEST_DEFER(add_residual_rms_norm)
TRILITH_TEST_DEFER(attention)
TRILITH_TEST_DEFER(attention_backward)
TRILITH_TEST_DEFER(attention_delta)
TRILITH_TEST_DEFER(attention_sinks_backward)
TRILITH_TEST_DEFER(bias_gradient)
TRILITH_TEST_DEFER(copy)
TRILITH_TEST_DEFER(cross_entropy_backward)
TRILITH_TEST_DEFER(cross_entropy_loss)
TRILITH_TEST_DEFER(embedding)
TRILITH_TEST_DEFER(embedding_backward)
TRILITH_TEST_DEFER(fill)
TRILITH_TEST_DEFER(gelu_backward)
TRILITH_TEST_DEFER(gemm)
TRILITH_TEST_DEFER(layer_norm)
TRILITH_TEST_DEFER(layer_norm_backward)
TRILITH_TEST_DEFER(positions_backward)
TRILITH_TEST_DEFER(rms_norm)
TRILITH_TEST_DEFER(rms_norm_backward)
TRILITH_TEST_DEFER(rotary)
TRILITH_TEST_DEFER(rotary_backward)
TRILITH_TEST_DEFER(rotary_table)
TRILITH_TEST_DEFER(softmax_statistics)
TRILITH_TEST_DEFER(swiglu)
TRILITH_TEST_DEFER(swiglu_backward)
#undef TRILITH_TEST_DEFER

// `host` may be reused when the call returns.
template <class T>
void upload(const Deferred::Stream& s, const T* host, Vector<T> device) {
  s.give("upload", [&machine = s.machine(), device, from = std::vector<T>(host, host + device.size())] {
    upload(machine.host, from.data(), device);
  });
}

}  // namespace trilith::test
