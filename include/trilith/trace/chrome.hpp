// Timelines as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a process for each
// rank, with tracks for what it computes, what it communicates otherwise, sends and receives, arrows from
// each send to its receive, and counters of what the rank holds.
//
// Messages that are under way at the same time lie on tracks of their own, since slices of one track must not
// overlap.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

struct ChromeOptions {
  double microseconds = 1000;  // of a unit of time
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

// Where a trace has come to. Process ids begin at 1, for viewers hide 0; thread ids are distinct over all
// processes and from all process ids, for some viewers name threads by that id alone.
struct ChromeIds {
  int process = 1;
  int thread = 1;
  int flow = 0;
};

// The events of one timeline. `earliest`: on the clock of its origin, where the trace begins.
class ChromeEvents {
 public:
  ChromeEvents(const Timeline& timeline, const ChromeOptions& options, Time earliest, ChromeIds& ids,
               nlohmann::json& events)
      : timeline_(&timeline),
        options_(options),
        shift_(timeline.origin - earliest),
        first_process_(ids.process),
        first_flow_(ids.flow),
        events_(&events),
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
    for (int rank = 0; rank < timeline.ranks(); ++rank) {
      const std::vector<Aside>& asides = timeline.lanes[rank].asides;
      const bool communicates =
          std::any_of(asides.begin(), asides.end(), [](const Aside& aside) { return aside.communicates; });
      const int compute = ids.thread;
      const int first_send = compute + (communicates ? 2 : 1);
      const int first_receive = first_send + sends[rank].count();
      ids.thread = first_receive + receives[rank].count();
      threads_.push_back(
          {.compute = compute, .sends = first_send, .receives = first_receive, .end = ids.thread});
    }
    ids.process += timeline.ranks();
    ids.flow += static_cast<int>(timeline.messages.size());
  }

  void write() {
    for (int rank = 0; rank < timeline_->ranks(); ++rank) {
      const Lane& lane = timeline_->lanes[rank];
      name_tracks(rank);
      for (const Block& block : lane.blocks) add(rank, block);
      for (const Aside& aside : lane.asides) add(rank, aside);
      for (const Level& level : lane.in_flight) counter(rank, "in flight", "microbatches", level);
      for (const Level& level : lane.activation_bytes) counter(rank, "activations", "bytes", level);
    }
    for (const int id : order_) add(id);
  }

 private:
  // The first thread of each kind. What else a rank communicates lies between compute and sends, if any.
  struct Threads {
    int compute, sends, receives, end;
  };

  int process(int rank) const { return first_process_ + rank; }
  double at(double time) const { return (static_cast<double>(shift_) + time) * options_.microseconds; }

  void metadata(const char* what, int rank, int thread, nlohmann::json arguments) {
    events_->push_back({{"ph", "M"},
                        {"name", what},
                        {"pid", process(rank)},
                        {"tid", thread},
                        {"args", std::move(arguments)}});
  }

  void name_tracks(int rank) {
    const Threads& threads = threads_[rank];
    metadata("process_name", rank, threads.compute, {{"name", timeline_->lanes[rank].name}});
    metadata("process_sort_index", rank, threads.compute, {{"sort_index", process(rank)}});
    for (int thread = threads.compute; thread < threads.end; ++thread) {
      std::string name = thread == threads.compute ? "compute" : "communication";
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

  void add(int rank, const Aside& aside) {
    nlohmann::json arguments = nlohmann::json::object();
    if (!aside.of.empty()) arguments["of"] = aside.of;
    slice(rank, threads_[rank].compute + (aside.communicates ? 1 : 0), aside.what,
          aside.communicates ? "communication" : "compute", static_cast<double>(aside.start),
          static_cast<double>(aside.end), std::move(arguments));
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
    flow("s", first_flow_ + id, message.from, send, start + length / 4);
    flow("f", first_flow_ + id, message.to, receive, start + length / 2);
  }

  void counter(int rank, const char* name, const char* unit, const Level& level) {
    events_->push_back({{"ph", "C"},
                        {"name", name},
                        {"pid", process(rank)},
                        {"ts", at(static_cast<double>(level.time))},
                        {"args", {{unit, level.amount}}}});
  }

  void slice(int rank, int thread, const std::string& name, const char* category, double start, double end,
             nlohmann::json arguments) {
    events_->push_back({{"ph", "X"},
                        {"name", name},
                        {"cat", category},
                        {"pid", process(rank)},
                        {"tid", thread},
                        {"ts", at(start)},
                        {"dur", (end - start) * options_.microseconds},
                        {"args", std::move(arguments)}});
  }

  void flow(const char* phase, int id, int rank, int thread, double time) {
    events_->push_back({{"ph", phase},
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
  Time shift_;
  int first_process_;
  int first_flow_;
  nlohmann::json* events_;
  std::vector<int> order_;                  // messages by the time at which they are sent
  std::vector<std::array<int, 2>> placed_;  // of each message: which of the tracks for sends, for receives
  std::vector<Threads> threads_;            // per rank
};

// When the first thing of a timeline happens, on the clock of its origin.
inline Time earliest(const Timeline& timeline) {
  Time least = 0;
  for (const Lane& lane : timeline.lanes) {
    for (const Aside& aside : lane.asides) least = std::min(least, aside.start);
  }
  return timeline.origin + least;
}

}  // namespace detail

// Several timelines with one clock, as the pipelines of one trainer. Their ranks become processes in this
// order.
inline std::string chrome_trace(std::span<const Timeline> timelines, const ChromeOptions& options = {}) {
  Time start = std::numeric_limits<Time>::max();
  detail::ChromeIds ids;
  for (const Timeline& timeline : timelines) {
    start = std::min(start, detail::earliest(timeline));
    ids.thread += timeline.ranks();
  }
  nlohmann::json events = nlohmann::json::array();
  nlohmann::json about{{"microseconds of a unit", options.microseconds}};
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    detail::ChromeEvents(timelines[i], options, start, ids, events).write();
    about["schedule"] = title(timelines[i]);
    about[timelines.size() == 1 ? "figures" : "figures of pipeline " + std::to_string(i)] =
        figures(timelines[i]);
  }
  return nlohmann::json{
             {"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", std::move(about)}}
             .dump() +
         "\n";
}

inline std::string chrome_trace(const Timeline& timeline, const ChromeOptions& options = {}) {
  return chrome_trace({&timeline, 1}, options);
}

}  // namespace trilith::inline v0::trace
