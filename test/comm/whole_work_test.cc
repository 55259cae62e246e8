// Operations that the member which posts last carries out whole, as on a GPU, whose work is only given to it
// then: a carrier of that kind on the host.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/comm/thread_communicator.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/core/error.hpp>
#include <trilith/device/host.hpp>

namespace trilith {
namespace {

using testing::HasSubstr;

// What is kept with a part is the sum that it begins with; what has begun is the sum of all.
class WholeCarrier {
 public:
  using stream = ops::ImmediateStream;

  WholeCarrier(int rank, const std::vector<int>&) : rank_(rank) {}

  std::shared_ptr<const void> kept(const stream&) const { return std::make_shared<int>(1 << rank_); }
  static void wait(const stream&, const void* begun) { waited += *static_cast<const int*>(begun); }
  static void abandon(const void* begun) { abandoned += begun != nullptr ? 1 : 0; }

  static ThreadHub::Work barrier() { return {.begin = &sum}; }

  static inline std::atomic<int> begun = 0;
  static inline std::atomic<int> waited = 0;
  static inline std::atomic<int> abandoned = 0;
  static inline std::atomic<bool> fails = false;

 private:
  static std::shared_ptr<const void> sum(const ThreadHub::Parts& parts, Index, int) {
    if (fails) throw Error("the device is gone", "get another");
    ++begun;
    auto total = std::make_shared<int>(0);
    for (const ThreadHub::Part& part : parts) *total += *static_cast<const int*>(part.kept.get());
    return total;
  }

  int rank_;
};

using Communicator = BasicThreadCommunicator<WholeCarrier>;
using Rank = BasicThreadRank<Communicator>;

class WholeWork : public testing::Test {
 protected:
  void SetUp() override {
    WholeCarrier::begun = 0;
    WholeCarrier::waited = 0;
    WholeCarrier::abandoned = 0;
    WholeCarrier::fails = false;
  }

  // What the world says when the task fails.
  std::string message_of(const std::function<void(Rank&)>& task) {
    try {
      world_.run(task);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  BasicThreadWorld<Communicator> world_{3};
  const Host::Stream stream_;
};

TEST_F(WholeWork, IsBegunOnceAndReachesAllWhoWait) {
  world_.run([&](Rank& rank) {
    Communicator group = rank.group("all", {0, 1, 2});
    for (int i = 0; i < 100; ++i) group.barrier(stream_).wait(stream_);
  });
  EXPECT_EQ(WholeCarrier::begun, 100);
  EXPECT_EQ(WholeCarrier::waited, 3 * 100 * (1 + 2 + 4));
  EXPECT_EQ(WholeCarrier::abandoned, 0);
}

TEST_F(WholeWork, IsNotBegunOnceAMemberHasDroppedItsHandle) {
  std::atomic<bool> dropped = false;
  std::atomic<int> posted = 0;  // by the others
  const std::string message = message_of([&](Rank& rank) {
    Communicator group = rank.group("all", {0, 1, 2});
    if (rank.rank() == 1) {
      { Communicator::handle handle = group.barrier(stream_); }
      dropped = true;
      dropped.notify_all();
    } else {
      dropped.wait(false);
      Communicator::handle handle = group.barrier(stream_);
      ++posted;
      while (posted < 2) std::this_thread::yield();
      handle.wait(stream_);
    }
  });
  EXPECT_THAT(message, HasSubstr("was dropped by rank 1"));
  EXPECT_EQ(WholeCarrier::begun, 0);
}

TEST_F(WholeWork, ThatHasBegunIsWaitedForWhenItsHandleIsDropped) {
  world_.run([&](Rank& rank) {
    Communicator group = rank.group("all", {0, 1, 2});
    Communicator::handle handle = group.barrier(stream_);
    if (rank.rank() == 2) {
      while (WholeCarrier::begun == 0) std::this_thread::yield();
    } else {
      handle.wait(stream_);
    }
  });
  EXPECT_EQ(WholeCarrier::abandoned, 1);
}

TEST_F(WholeWork, ThatCannotBeginStopsAllRanks) {
  WholeCarrier::fails = true;
  const std::string message = message_of([&](Rank& rank) {
    Communicator group = rank.group("all", {0, 1, 2});
    group.barrier(stream_).wait(stream_);
  });
  EXPECT_THAT(message, HasSubstr("the device is gone"));
}

}  // namespace
}  // namespace trilith
