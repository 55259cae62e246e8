// A timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a process for
// each rank, with tracks for what it computes, sends and receives, arrows from each send to its receive, and
// counters of what the rank holds.
//
// Messages that are under way at the same time lie on tracks of their own, since slices of one track must not
// overlap.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

struct ChromeOptions {
  double microseconds = 1000;   // of a unit of time
  double activation_bytes = 0;  // of a microbatch in flight in one chunk; 0 leaves out the counter of memory
};

namespace detail {

// Tracks of one rank for messages of one kind. Messages come in the order in which they are sent.
class MessageTracks {
 public:
  // A message that takes no time is still shown, as long as a twentieth of a unit: viewers tie no arrow to
  // less.
  static double end(const Message& message) {
    return std::max(static_cast<double>(message.arrived), static_cast<double>(message.sent) + 0.05);
  }

  // The first track that is free.
  int take(const Message& message) {
    auto track = std::find_if(busy_until_.begin(), busy_until_.end(),
                              [&](double until) { return until <= static_cast<double>(message.sent); });
    if (track == busy_until_.end()) track = busy_until_.insert(track, 0.0);
    *track = end(message);
    return static_cast<int>(track - busy_until_.begin());
  }

  int count() const { return static_cast<int>(busy_until_.size()); }

 private:
  std::vector<double> busy_until_;
};

// Process ids begin at 1, for viewers hide 0; thread ids are distinct over all processes and from all process
// ids, for some viewers name threads by that id alone.
class ChromeTrace {
 public:
  ChromeTrace(const Timeline& timeline, const ChromeOptions& options)
      : timeline_(&timeline),
        options_(options),
        order_(timeline.messages.size()),
        placed_(timeline.messages.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return timeline.messages[a].sent < timeline.messages[b].sent; });
    std::vector<MessageTracks> sends(timeline.lanes.size()), receives(timeline.lanes.size());
    for (const int id : order_) {
      const Message& message = timeline.messages[id];
      placed_[id] = {sends[message.from].take(message), receives[message.to].take(message)};
    }
    int thread = timeline.ranks() + 1;
    for (int rank = 0; rank < timeline.ranks(); ++rank) {
      threads_.push_back(
          {.compute = thread, .sends = thread + 1, .receives = thread + 1 + sends[rank].count()});
      thread = threads_.back().receives + receives[rank].count();
      threads_.back().end = thread;
    }
  }

  nlohmann::json build() {
    for (int rank = 0; rank < timeline_->ranks(); ++rank) {
      name_tracks(rank);
      for (const Block& block : timeline_->lanes[rank].blocks) add(rank, block);
      for (const Level& level : timeline_->lanes[rank].in_flight) add(rank, level);
    }
    for (const int id : order_) add(id);
    return {{"traceEvents", std::move(events_)},
            {"displayTimeUnit", "ms"},
            {"otherData", {{"schedule", title(*timeline_)}, {"figures", figures(*timeline_)}}}};
  }

 private:
  // The first thread of each kind.
  struct Threads {
    int compute, sends, receives;
    int end = 0;
  };

  static int process(int rank) { return rank + 1; }
  double at(double time) const { return time * options_.microseconds; }

  void metadata(const char* what, int rank, int thread, nlohmann::json arguments) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", process(rank)},
                       {"tid", thread},
                       {"args", std::move(arguments)}});
  }

  void name_tracks(int rank) {
    const Threads& threads = threads_[rank];
    metadata("process_name", rank, threads.compute, {{"name", "rank " + std::to_string(rank)}});
    metadata("process_sort_index", rank, threads.compute, {{"sort_index", rank}});
    for (int thread = threads.compute; thread < threads.end; ++thread) {
      std::string name = "compute";
      if (thread >= threads.sends) {
        const bool sends = thread < threads.receives;
        const int number = thread - (sends ? threads.sends : threads.receives);
        name = (sends ? "sends" : "receives") + (number == 0 ? "" : " " + std::to_string(number + 1));
      }
      metadata("thread_name", rank, thread, {{"name", name}});
      metadata("thread_sort_index", rank, thread, {{"sort_index", thread}});
    }
  }

  void add(int rank, const Block& block) {
    nlohmann::json arguments{{"what", describe(*timeline_, rank, block)}, {"waited", block.waited}};
    for (const schedule::Action& action : block.actions) {
      arguments["actions"].push_back({{"pass", paint(action.pass).words},
                                      {"microbatch", action.microbatch},
                                      {"chunk", action.chunk},
                                      {"stage", timeline_->stage(rank, action.chunk)}});
    }
    slice(rank, threads_[rank].compute, label(*timeline_, block), "compute", static_cast<double>(block.start),
          static_cast<double>(block.end), std::move(arguments));
  }

  void add(int rank, const Level& level) {
    counter(rank, "in flight", level, "microbatches", level.count);
    if (options_.activation_bytes > 0) {
      counter(rank, "activations", level, "bytes", level.count * options_.activation_bytes);
    }
  }

  // A message: a slice where it is sent, one where it is received, and the arrow between.
  void add(int id) {
    const Message& message = timeline_->messages[id];
    const double start = static_cast<double>(message.sent);
    const double length = MessageTracks::end(message) - start;
    const std::string what = origin(*timeline_, message);
    const std::string name = what.substr(0, what.find(' '));
    const nlohmann::json arguments{
        {"sent", message.sent},
        {"arrived", message.arrived},
        {"carries", message.pass == schedule::Pass::forward ? "activations" : "gradient"},
        {"from", message.from},
        {"to", message.to}};
    const int send = threads_[message.from].sends + placed_[id][0];
    const int receive = threads_[message.to].receives + placed_[id][1];
    slice(message.from, send, "send " + name, "communication", start, start + length, arguments);
    slice(message.to, receive, "receive " + name, "communication", start, start + length, arguments);
    flow("s", id, message.from, send, start + length / 4);
    flow("f", id, message.to, receive, start + length / 2);
  }

  void counter(int rank, const char* name, const Level& level, const char* unit, double value) {
    events_.push_back({{"ph", "C"},
                       {"name", name},
                       {"pid", process(rank)},
                       {"ts", at(static_cast<double>(level.time))},
                       {"args", {{unit, value}}}});
  }

  void slice(int rank, int thread, const std::string& name, const char* category, double start, double end,
             nlohmann::json arguments) {
    events_.push_back({{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", process(rank)},
                       {"tid", thread},
                       {"ts", at(start)},
                       {"dur", at(end - start)},
                       {"args", std::move(arguments)}});
  }

  void flow(const char* phase, int id, int rank, int thread, double time) {
    events_.push_back({{"ph", phase},
                       {"name", "message"},
                       {"cat", "message"},
                       {"id", id},
                       {"bp", "e"},
                       {"pid", process(rank)},
                       {"tid", thread},
                       {"ts", at(time)}});
  }

  const Timeline* timeline_;
  ChromeOptions options_;
  std::vector<int> order_;                  // messages by the time at which they are sent
  std::vector<std::array<int, 2>> placed_;  // of each message: which of the tracks for sends, for receives
  std::vector<Threads> threads_;            // per rank
  nlohmann::json events_ = nlohmann::json::array();
};

}  // namespace detail

inline std::string chrome_trace(const Timeline& timeline, const ChromeOptions& options = {}) {
  return detail::ChromeTrace(timeline, options).build().dump() + "\n";
}

}  // namespace trilith::inline v0::trace
