// The event recorder: what one rank did, from when to when.
//
// Times are nanoseconds of the system's steady clock, which all ranks on a machine share. They are taken in
// the order of a stream's work: stream.stamp(&time) writes the time at which all work given to the stream so
// far is done. On the host that is at once, for each call has finished its work. An asynchronous device may
// write it later, but before synchronize() returns; so events are read after that, and stay where they are
// until clear().
//
// A recorder belongs to one rank, which alone writes to it; others read it while that rank is at rest.
//
// Where a stream shows ranges to a profiler, what would be recorded is such a range, whether or not it is
// recorded.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <string>

namespace trilith::inline v0 {

// What a rank does in a step of training. Where there are several of a kind, an event's index says which.
enum class Activity {
  load_batch,        // to device memory, and its valid tokens are counted over the data ranks
  action,            // index: of the rank's program
  post,              // sends and receives; index: of the rank's exchanges
  wait,              // for a posted exchange; index: of the rank's exchanges
  reduce_tied,       // the gradient of a tied table, over its stages and over the data ranks
  reduce_gradients,  // wait for all buckets
  sum_loss,          // over data ranks and stages
  gradient_norm,
  update,  // of the weights
};

constexpr const char* name_of(Activity activity) {
  switch (activity) {
    case Activity::load_batch: return "load batch";
    case Activity::action: return "action";
    case Activity::post: return "post";
    case Activity::wait: return "wait";
    case Activity::reduce_tied: return "reduce tied gradient";
    case Activity::reduce_gradients: return "reduce gradients";
    case Activity::sum_loss: return "sum loss";
    case Activity::gradient_norm: return "gradient norm";
    case Activity::update: return "update weights";
  }
  return "";
}

struct Event {
  Activity activity;
  int index = 0;
  std::int64_t begin = 0;  // ns
  std::int64_t end = 0;
};

class Recorder {
 public:
  // An event that its caller stamps.
  Event& add(Activity activity, int index) { return events_.emplace_back(Event{activity, index}); }

  // In the order in which they began.
  const std::deque<Event>& events() const { return events_; }
  void clear() { events_.clear(); }

 private:
  std::deque<Event> events_;  // its elements don't move while a device has yet to stamp them
};

// A stream that shows what is given to it between the two calls, under a name, to a profiler.
template <class S>
concept profiled_stream = requires(const S& stream, const char* name) {
  stream.begin_range(name);
  stream.end_range();
};

// Records what is given to the stream while this object lives; nothing where the recorder is null.
template <class Stream>
class Recording {
 public:
  Recording(Recorder* recorder, const Stream& stream, Activity activity, int index = 0)
      : Recording(recorder, stream, activity, index, [&] { return name_of(activity); }) {}

  // name(): what a profiler shows, a string of any kind; called only where there may be one.
  template <std::invocable Name>
  Recording(Recorder* recorder, const Stream& stream, Activity activity, int index, Name&& name)
      : stream_(stream) {
    if constexpr (profiled_stream<Stream>) stream_.begin_range(std::string(name()).c_str());
    if (recorder == nullptr) return;
    event_ = &recorder->add(activity, index);
    stream_.stamp(&event_->begin);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (event_ != nullptr) stream_.stamp(&event_->end);
    if constexpr (profiled_stream<Stream>) stream_.end_range();
  }

 private:
  const Stream& stream_;
  Event* event_ = nullptr;
};

// Of the clock that events are stamped by, in nanoseconds.
inline std::int64_t steady_time() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace trilith::inline v0
