// The thread communicator: what each collective does, on any group, in any order of arrival, and how a world
// ends when a rank does not do its part.

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/comm/thread_world.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/device/host.hpp>

namespace trilith {
namespace {

using testing::HasSubstr;

// Sizes around the slices that collectives are cut into, and small odd ones.
constexpr Index sizes[] = {1, 7, 1000, 16384, 16385, 50001};

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks;
  for (int r = 0; r < count; ++r) ranks.push_back(r);
  return ranks;
}

std::vector<float> random_values(Index count, int rank, int use) {
  const Philox random(17, static_cast<std::uint64_t>(rank * 100 + use));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) values[i] = random.normal(static_cast<std::uint64_t>(i));
  return values;
}

Vector<float> view(std::vector<float>& v) {
  return {v.data(), {static_cast<Index>(v.size())}};
}

// Arrive in a different order each time: sums must not depend on it.
void dawdle(int rank) {
  std::this_thread::sleep_for(std::chrono::microseconds(rank * 37 % 5 * 100));
}

std::string message_of(ThreadWorld& world, const std::function<void(ThreadRank&)>& task) {
  try {
    world.run(task);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ThreadCommunicator, AllReduceAddsInAscendingRank) {
  for (int ranks : {1, 2, 3, 5, 8}) {
    ThreadWorld world(ranks);
    world.run([&](ThreadRank& self) {
      const Host::Stream stream;
      auto group = self.group("all", all_ranks(ranks));
      for (Index size : sizes) {
        std::vector<float> expected(static_cast<std::size_t>(size), 0.0f);
        for (int r = 0; r < ranks; ++r) {
          const auto part = random_values(size, r, 0);
          for (Index i = 0; i < size; ++i) expected[i] = r == 0 ? part[i] : expected[i] + part[i];
        }
        auto mine = random_values(size, self.rank(), 0);
        dawdle(self.rank());
        group.all_reduce(stream, view(mine)).wait(stream);
        EXPECT_EQ(mine, expected) << ranks << " ranks, " << size << " elements";
      }
    });
  }
}

template <class T>
class ThreadCommunicatorOfHalves : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(ThreadCommunicatorOfHalves, Halves);

TYPED_TEST(ThreadCommunicatorOfHalves, SumsAreFloat32InAscendingRankAndRoundedOnce) {
  using T = TypeParam;
  constexpr int ranks = 5;
  constexpr Index block = 20001;
  const auto halves = [](int rank) {
    std::vector<T> values;
    for (const float x : random_values(block * ranks, rank, 2)) values.push_back(T(x));
    return values;
  };
  std::vector<float> sums(block * ranks, 0.0f);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> part = halves(r);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<float>(part[i]);
  }

  ThreadWorld world(ranks);
  world.run([&](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("all", all_ranks(ranks));
    std::vector<T> whole = halves(self.rank());
    std::vector<T> mine(block);
    const Vector<T> all(whole.data(), {block * ranks});
    group.reduce_scatter(stream, Vector<const T>(all), Vector<T>(mine.data(), {block})).wait(stream);
    group.all_reduce(stream, all).wait(stream);
    for (Index i = 0; i < block; ++i) {
      const auto at = static_cast<std::size_t>(self.rank() * block + i);
      ASSERT_EQ(mine[static_cast<std::size_t>(i)].bits, T(sums[at]).bits) << i;
      ASSERT_EQ(whole[at].bits, T(sums[at]).bits) << i;
    }
  });
}

TEST(ThreadCommunicator, AllReduceMaxKeepsInfinitiesAndNan) {
  ThreadWorld world(3);
  world.run([](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("all", all_ranks(3));
    constexpr float inf = std::numeric_limits<float>::infinity();
    std::vector<float> x{self.rank() == 1 ? 4.0f : -inf, -inf, self.rank() == 2 ? std::nanf("") : 1.0f};
    group.all_reduce(stream, view(x), Reduction::max).wait(stream);
    EXPECT_EQ(x[0], 4.0f);
    EXPECT_EQ(x[1], -inf);
    EXPECT_TRUE(std::isnan(x[2]));
  });
}

TEST(ThreadCommunicator, ReduceScatterThenAllGatherIsAllReduce) {
  for (int ranks : {1, 2, 3, 8}) {
    ThreadWorld world(ranks);
    world.run([&](ThreadRank& self) {
      const Host::Stream stream;
      auto group = self.group("all", all_ranks(ranks));
      for (Index block : sizes) {
        auto whole = random_values(block * ranks, self.rank(), 1);
        auto reduced = whole;
        std::vector<float> mine(static_cast<std::size_t>(block), std::nanf(""));
        std::vector<float> gathered(whole.size(), std::nanf(""));
        group.all_reduce(stream, view(reduced)).wait(stream);
        dawdle(self.rank());
        group.reduce_scatter(stream, Vector<const float>(view(whole)), view(mine)).wait(stream);
        group.all_gather(stream, Vector<const float>(view(mine)), view(gathered)).wait(stream);
        EXPECT_EQ(gathered, reduced);
      }
    });
  }
}

TEST(ThreadCommunicator, BroadcastCountsRootsWithinTheGroup) {
  ThreadWorld world(5);
  world.run([](ThreadRank& self) {
    const Host::Stream stream;
    if (self.rank() < 2) return;
    auto group = self.group("upper", {2, 3, 4});
    for (int root = 0; root < 3; ++root) {
      std::vector<float> x(20000, static_cast<float>(self.rank()));
      group.broadcast(stream, view(x), root).wait(stream);
      EXPECT_EQ(x, std::vector<float>(20000, static_cast<float>(2 + root)));
    }
  });
}

TEST(ThreadCommunicator, RingShiftMovesEachBlockToTheNextRank) {
  for (int ranks : {1, 2, 3, 5}) {
    ThreadWorld world(ranks);
    world.run([&](ThreadRank& self) {
      const Host::Stream stream;
      auto group = self.group("ring", all_ranks(ranks));
      auto block = random_values(20001, self.rank(), 2);
      std::vector<float> arriving(block.size());
      for (int hop = 1; hop <= ranks; ++hop) {
        group.ring_shift(stream, Vector<const float>(view(block)), view(arriving)).wait(stream);
        std::swap(block, arriving);
        EXPECT_EQ(block, random_values(20001, (self.rank() - hop + ranks) % ranks, 2)) << hop;
      }
    });
  }
}

// With a rendezvous transport, ranks that all send before they receive would wait for ever.
TEST(ThreadCommunicator, ExchangeAroundARingDoesNotDeadlock) {
  for (int ranks : {2, 3, 5}) {
    ThreadWorld world(ranks);
    world.run([&](ThreadRank& self) {
      const Host::Stream stream;
      auto group = self.group("ring", all_ranks(ranks));
      auto out = random_values(70000, self.rank(), 3);
      std::vector<float> in(out.size());
      const int next = (self.rank() + 1) % ranks;
      const int previous = (self.rank() + ranks - 1) % ranks;
      const Message both[] = {Message::send(next, view(out)), Message::receive(previous, view(in))};
      group.exchange(stream, both).wait(stream);
      EXPECT_EQ(in, random_values(70000, previous, 3));
    });
  }
}

TEST(ThreadCommunicator, MessagesOfAPairArriveInTheOrderSent) {
  ThreadWorld world(2);
  world.run([](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("pair", {0, 1});
    std::vector<std::vector<float>> buffers;
    for (int k = 0; k < 4; ++k) {
      buffers.push_back(self.rank() == 0 ? random_values(100, 0, k) : std::vector<float>(100));
    }
    std::vector<ThreadHandle> handles;
    for (auto& buffer : buffers) {
      handles.push_back(self.rank() == 0 ? group.send(stream, 1, view(buffer))
                                         : group.receive(stream, 0, view(buffer)));
    }
    for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->wait(stream);
    for (int k = 0; k < 4; ++k) EXPECT_EQ(buffers[k], random_values(100, 0, k));
  });
}

// Of any number of bytes, whatever the slices; what lies behind a message is left alone.
TEST(ThreadCommunicator, MessagesOfAnyNumberOfBytesArriveWhole) {
  ThreadWorld world(2);
  world.run([](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("pair", {0, 1});
    for (const std::size_t bytes : {1, 2, 3, 5, 65535, 65537, 131071, 200003}) {
      std::vector<char> data(bytes + 1, 'x');
      if (self.rank() == 0) {
        for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * i % 101);
      }
      const Vector<char> message{data.data(), {static_cast<Index>(bytes)}};
      (self.rank() == 0 ? group.send(stream, 1, message) : group.receive(stream, 0, message)).wait(stream);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], static_cast<char>(i * i % 101)) << bytes;
      EXPECT_EQ(data[bytes], 'x');
    }
  });
}

TEST(ThreadCommunicator, OperationsProceedWhileAMemberComputes) {
  ThreadWorld world(2);
  std::atomic<bool> first_is_done = false;
  world.run([&](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("pair", {0, 1});
    std::vector<float> x(40000, 1.0f);
    ThreadHandle handle = group.all_reduce(stream, view(x));
    if (self.rank() == 1) {
      while (!first_is_done) std::this_thread::yield();  // computing: has posted, does not wait yet
    }
    handle.wait(stream);
    if (self.rank() == 0) first_is_done = true;
    EXPECT_EQ(x, std::vector<float>(40000, 2.0f));
  });
}

TEST(ThreadCommunicator, LedgerCountsCallsAndBytes) {
  ThreadWorld world(4);
  world.run([](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("all", all_ranks(4));
    std::vector<float> x(100, 1.0f);
    group.all_reduce(stream, view(x)).wait(stream);
    group.all_reduce(stream, view(x)).wait(stream);
    group.barrier(stream).wait(stream);
    const auto entry = self.ledger().total("all", Collective::all_reduce);
    EXPECT_EQ(entry.calls, 2);
    EXPECT_EQ(entry.bytes, 800);
    EXPECT_DOUBLE_EQ(entry.bytes_on_wire, 2 * 400 * 2 * 3 / 4.0);  // 2 (t − 1) / t of the buffer, twice
    EXPECT_EQ(self.ledger().total("all", Collective::barrier).calls, 1);
  });
}

TEST(ThreadWorld, AFailingRankStopsTheOthersWithItsName) {
  ThreadWorld world(4);
  std::atomic<int> told = 0;
  const std::string message = message_of(world, [&](ThreadRank& self) {
    try {
      const Host::Stream stream;
      auto group = self.group("all", all_ranks(4));
      std::vector<float> x(50000, 1.0f);
      ThreadHandle handle = group.all_reduce(stream, view(x));
      if (self.rank() == 2) throw Error("the disk is on fire", "fetch water");
      handle.wait(stream);
      group.barrier(stream).wait(stream);
    } catch (const Error& error) {
      if (std::string(error.what()).find("rank 2 failed: the disk is on fire") != std::string::npos) ++told;
      throw;
    }
  });
  EXPECT_EQ(message, "rank 2: the disk is on fire; fetch water");
  EXPECT_EQ(told, 3);
  EXPECT_THAT(message_of(world, [](ThreadRank&) {}), HasSubstr("this world has failed"));
}

TEST(ThreadWorld, ARankThatReturnsEarlyIsNamedToThoseThatWait) {
  ThreadWorld world(3);
  const std::string message = message_of(world, [](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("all", all_ranks(3));
    if (self.rank() != 1) group.barrier(stream).wait(stream);
  });
  EXPECT_THAT(message, HasSubstr("rank 1 (which has returned)"));
}

TEST(ThreadWorld, ADeadlockIsAnError) {
  ThreadWorld world(2);
  const std::string message = message_of(world, [](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("pair", {0, 1});
    float x = 0;
    group.receive(stream, 1 - self.rank(), Vector<float>(&x, {1})).wait(stream);
  });
  EXPECT_THAT(message, HasSubstr("every rank waits and none can go on"));
  EXPECT_THAT(message, HasSubstr("message from rank 1 to rank 0 of 4 bytes"));
}

TEST(ThreadWorld, DifferentCallsOnOneGroupAreAnError) {
  ThreadWorld world(2);
  const std::string message = message_of(world, [](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("pair", {0, 1});
    std::vector<float> x(self.rank() == 0 ? 4 : 5);
    group.all_reduce(stream, view(x)).wait(stream);
  });
  EXPECT_THAT(message, HasSubstr("of 4 elements"));
  EXPECT_THAT(message, HasSubstr("of 5 elements"));
}

TEST(ThreadWorld, ADroppedHandleIsAnError) {
  ThreadWorld world(2);
  std::atomic<bool> dropped = false;
  const std::string message = message_of(world, [&](ThreadRank& self) {
    const Host::Stream stream;
    auto group = self.group("pair", {0, 1});
    std::vector<float> x(1);
    if (self.rank() == 1) {
      { ThreadHandle handle = group.all_reduce(stream, view(x)); }
      dropped = true;
      return;
    }
    while (!dropped) std::this_thread::yield();
    group.all_reduce(stream, view(x)).wait(stream);
  });
  EXPECT_THAT(message, HasSubstr("was dropped by rank 1"));
}

// Rank 0 gives up a wait; that must not count as waiting while it computes and rank 1 waits for it.
TEST(ThreadWorld, AWaitThatWasGivenUpIsNoDeadlock) {
  ThreadWorld world(3);
  std::atomic<bool> given_up = false;
  const std::string message = message_of(world, [&](ThreadRank& self) {
    const Host::Stream stream;
    if (self.rank() == 2) return;  // never takes part in the all_reduce
    auto all = self.group("all", all_ranks(3));
    auto pair = self.group("pair", {0, 1});
    std::vector<float> x(1);
    if (self.rank() == 0) {
      EXPECT_THROW(all.all_reduce(stream, view(x)).wait(stream), Error);
      given_up = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that rank 0 waits already
      { ThreadHandle dropped = all.all_reduce(stream, view(x)); }
      while (!given_up) std::this_thread::yield();
    }
    pair.barrier(stream).wait(stream);
  });
  EXPECT_EQ(message, "no error");
}

TEST(ThreadWorld, AThreadThatCannotBeStartedEndsThoseThatWere) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space without a limit";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto start_with_little_memory = [] {
    // Room for some stacks, not for all.
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{96} << 20);
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      ThreadWorld world(512);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start_with_little_memory(), testing::ExitedWithCode(3),
              "the thread of rank [0-9]+ in a world of 512 ranks cannot be started");
}

TEST(ThreadWorld, AGroupHasRanksOfTheWorldOnceEach) {
  for (const std::vector<int>& members : {std::vector{0, 7}, std::vector{0, -1}, std::vector{0, 0}}) {
    ThreadWorld world(1);
    EXPECT_THAT(message_of(world, [&](ThreadRank& self) { self.group("odd", members); }),
                HasSubstr("give each rank of the world at most once"));
  }
}

TEST(ThreadWorld, ARunWithinARunIsAnError) {
  ThreadWorld world(2);
  EXPECT_THAT(message_of(world, [&](ThreadRank&) { world.run([](ThreadRank&) {}); }),
              HasSubstr("while a run of this world is on"));
}

TEST(ThreadWorld, AGroupMustContainTheRankThatAsksForIt) {
  ThreadWorld world(2);
  EXPECT_THAT(message_of(world, [](ThreadRank& self) { self.group("other", {1 - self.rank()}); }),
              HasSubstr("which it is not a member of"));
}

}  // namespace
}  // namespace trilith
