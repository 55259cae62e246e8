// The streams of the imitation: queues of work that nobody has run yet, and who runs what when.
//
// Nothing runs before something waits for it, unless chance says so. What waits for a stream or an event runs
// either no more than that depends on, or whatever of all streams chance picks. So of two pieces of work that
// no event orders, either may come first, by the seed; and what the host may not touch before it has waited
// is touched late.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

struct CUstream_st;

// A place in a stream's work.
struct Point {
  CUstream_st* stream;
  bool reached = false;
  std::chrono::steady_clock::time_point time = {};
};

struct CUstream_st {
  struct Work {
    std::function<void()> run;
    std::shared_ptr<const Point> after;  // where it waits for one
  };
  int device;
  bool open = true;  // cudaStreamDestroy has not been called
  std::deque<Work> queue = {};
};

namespace trilith::test::imitation {

class Queues {
 public:
  explicit Queues(std::uint64_t seed) : random_(seed) {
    constexpr double rates[] = {0, 0.1, 0.5};
    eagerness_ = rates[below(3)];
  }

  CUstream_st* open(int device) {
    streams_.push_back(std::make_unique<CUstream_st>(CUstream_st{.device = device}));
    return streams_.back().get();
  }
  bool is_open(const CUstream_st* stream) const {
    for (const auto& each : streams_) {
      if (each.get() == stream) return each->open;
    }
    return false;
  }
  int open_streams() const {
    int count = 0;
    for (const auto& each : streams_) count += each->open ? 1 : 0;
    return count;
  }

  void add(CUstream_st* stream, std::function<void()> work) {
    stream->queue.push_back({std::move(work), {}});
  }
  void wait(CUstream_st* stream, std::shared_ptr<const Point> point) {
    stream->queue.push_back({[] {}, std::move(point)});
  }
  std::shared_ptr<const Point> mark(CUstream_st* stream) {
    auto point = std::make_shared<Point>(Point{.stream = stream});
    add(stream, [point] {
      point->reached = true;
      point->time = std::chrono::steady_clock::now();
    });
    return point;
  }

  // Now and then runs something.
  void drift() {
    if (std::uniform_real_distribution<>()(random_) >= eagerness_) return;
    for (std::size_t steps = 1 + below(8); steps > 0; --steps) {
      if (CUstream_st* const stream = any()) step(*stream);
    }
  }

  void finish(CUstream_st* stream) {
    const bool only_needed = below(2) == 0;
    while (!stream->queue.empty()) advance(stream, only_needed);
  }
  void finish(const Point& point) {
    const bool only_needed = below(2) == 0;
    while (!point.reached && !dropped_) advance(point.stream, only_needed);
  }
  void finish_device(int device) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i]->device == device) finish(streams_[i].get());
    }
  }

  // Forgets all work that is left, for none can be done any more.
  void drop_all() {
    dropped_ = true;
    for (const auto& each : streams_) each->queue.clear();
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  static bool can_go_on(const CUstream_st& stream) {
    if (stream.queue.empty()) return false;
    const auto& after = stream.queue.front().after;
    return after == nullptr || after->reached;
  }

  static void step(CUstream_st& stream) {
    const CUstream_st::Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work.run();
  }

  // One of the streams that can go on, or none.
  CUstream_st* any() {
    std::vector<CUstream_st*> ready;
    for (const auto& each : streams_) {
      if (can_go_on(*each)) ready.push_back(each.get());
    }
    return ready.empty() ? nullptr : ready[below(ready.size())];
  }

  // A step towards the end of the stream's work.
  void advance(CUstream_st* towards, bool only_needed) {
    if (!only_needed) return step(*any());
    while (!can_go_on(*towards)) towards = towards->queue.front().after->stream;
    step(*towards);
  }

  std::mt19937_64 random_;
  double eagerness_;
  bool dropped_ = false;
  std::vector<std::unique_ptr<CUstream_st>> streams_;
};

}  // namespace trilith::test::imitation
