// A rank's second stream: what is forked off is done between fork and join, and nothing else is promised.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/device/side_stream.hpp>

#include "test/support/deferred.hpp"

namespace trilith::test {
namespace {

using testing::ElementsAre;
using Order = Deferred::Machine::Order;

void give(const Deferred::Stream& s, const std::string& name) {
  s.give(name, [] {});
}

// What is done when, where two pieces of work are forked off one after the other.
std::vector<std::string> done_in(Order order) {
  const Deferred::Stream s(order);
  const SideStream side(s);
  for (const std::string round : {"1", "2"}) {
    give(s, "before " + round);
    SideWork work = side.fork(s);
    give(work.stream(), "forked " + round);
    give(s, "beside " + round);
    work.join();
  }
  give(s, "after");
  s.synchronize();
  return s.machine().log;
}

TEST(SideStream, WhatIsForkedOffIsDoneInAnyOrderWithWhatIsBesideIt) {
  EXPECT_THAT(done_in(Order::oldest_first),
              ElementsAre("before 1", "beside 1", "forked 1", "before 2", "beside 2", "forked 2", "after"));
  EXPECT_THAT(done_in(Order::youngest_first),
              ElementsAre("before 1", "forked 1", "beside 1", "before 2", "forked 2", "beside 2", "after"));
}

TEST(SideStream, WhatIsForkedOffBeforeAJoinIsDoneInOrder) {
  for (const Order order : {Order::oldest_first, Order::youngest_first}) {
    const Deferred::Stream s(order);
    const SideStream side(s);
    SideWork first = side.fork(s);
    give(first.stream(), "first");
    SideWork second = side.fork(s);
    give(second.stream(), "second");
    second.join();
    give(s, "after");
    s.synchronize();
    EXPECT_THAT(s.machine().log, ElementsAre("first", "second", "after"));
  }
}

// Whoever catches it may use the buffers of what was forked off.
TEST(SideStream, WorkThatAnErrorLeavesIsJoined) {
  const Deferred::Stream s(Order::oldest_first);
  const SideStream side(s);
  const auto fail = [&] {
    const SideWork work = side.fork(s);
    give(work.stream(), "forked");
    throw std::runtime_error("beside it");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  give(s, "after");
  s.synchronize();
  EXPECT_THAT(s.machine().log, ElementsAre("forked", "after"));
}

TEST(SideStream, WorkIsJoinedOnceWhoeverHoldsIt) {
  const Deferred::Stream s(Order::oldest_first);
  const SideStream side(s);
  {
    SideWork work = side.fork(s);
    SideWork moved = std::move(work);
    give(moved.stream(), "forked");
    moved.join();
    give(moved.stream(), "later");
  }
  give(s, "after");
  s.synchronize();
  EXPECT_THAT(s.machine().log, ElementsAre("forked", "after", "later"));
}

TEST(SideStream, IsTheStreamItselfWhereWorkIsDoneWhenACallReturns) {
  const Host::Stream s;
  const SideStream side(s);
  SideWork work = side.fork(s);
  EXPECT_EQ(&work.stream(), &s);
  work.join();
}

}  // namespace
}  // namespace trilith::test
