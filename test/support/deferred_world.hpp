// Ranks that are threads and compute on Device<Deferred>, all on one machine: what travels between them
// arrives as late as their streams' waits allow, or as early.
#pragma once

#include <memory>
#include <vector>

#include <trilith/comm/slice_carrier.hpp>
#include <trilith/comm/thread_communicator.hpp>
#include <trilith/comm/thread_hub.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/core/tensor.hpp>

#include "test/support/deferred.hpp"

namespace trilith::test {

// A carrier of BasicThreadCommunicator, of what attention sends. Each operation has a stream of its own.
class DeferredCarrier {
 public:
  using stream = Deferred::Stream;

  DeferredCarrier(int /*rank*/, const std::vector<int>& /*members*/) {}

  std::shared_ptr<const void> kept(const stream& s) const { return std::make_shared<Event>(s); }
  static void wait(const stream& s, const void* begun) {
    s.machine().wait(s.index(), static_cast<const Event*>(begun)->point);
  }
  static void abandon(const void* /*begun*/) {}  // machine and buffers are gone together

  template <class T>
  static ThreadHub::Work all_gather(int /*ranks*/, Index count) {
    return {.begin = &begin<&SliceCarrier::all_gather<T>>, .count = count};
  }
  template <class T>
  static ThreadHub::Work reduce_scatter(int /*ranks*/, Index count) {
    return {.begin = &begin<&SliceCarrier::reduce_scatter<T>>, .count = count};
  }
  static ThreadHub::Work message(Index bytes) { return {.begin = &begin<&message_work>, .count = bytes}; }

 private:
  struct Event {
    explicit Event(const stream& s) : of(s), point(s.machine().end_of(s.index())) {}
    stream of;
    Deferred::Machine::Point point;
  };

  static ThreadHub::Work message_work(int /*ranks*/, Index bytes) { return SliceCarrier::message(bytes); }

  // When all parts are ready, does what Make(ranks, count) says.
  template <ThreadHub::Work (*Make)(int, Index)>
  static std::shared_ptr<const void> begin(const ThreadHub::Parts& parts, Index count, int argument) {
    const auto ready = [](const ThreadHub::Part& part) { return static_cast<const Event*>(part.kept.get()); };
    const Deferred::Stream own = ready(parts[0])->of.branch();
    for (const ThreadHub::Part& part : parts) own.machine().wait(own.index(), ready(part)->point);
    own.give("transfer", [parts, count, argument] {
      const ThreadHub::Work work = Make(static_cast<int>(parts.size()), count);
      for (Index slice = 0; slice < work.slices; ++slice) work.run(parts, count, argument, slice);
    });
    return std::make_shared<Event>(own);
  }
};

using DeferredCommunicator = BasicThreadCommunicator<DeferredCarrier>;
using DeferredWorld = BasicThreadWorld<DeferredCommunicator>;

}  // namespace trilith::test
