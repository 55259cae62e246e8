// Kernels with a fault planted in them: the emulator names what is wrong, the block, the thread and the line,
// in every order of lanes and with both landings of copies.

#include <cstdint>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/simt/buffer.hpp"

namespace trilith::test {
namespace {

using simt::Array;
using simt::Pending;
using simt::Width;
using testing::HasSubstr;

// The line of the last fault that was reached.
int planted_line = 0;

#define PLANT(call) (planted_line = __LINE__, call)

struct Arguments {
  simt::Global<float> x;  // (256)
};

// A kernel of 64 threads and two blocks whose body is a lambda.
template <class Body>
struct Planted {
  static constexpr const char* name = "planted";
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 2048;
  using Params = Arguments;

  template <simt::lane Lane>
  void operator()(Lane& lane, const Params& p) const {
    Body{}(lane, p);
  }
};

// Expects the fault in block 1 of a grid of two, found by `thread` where that doesn't depend on the order of
// lanes.
template <class Body>
void expect_fault(const Body&, const std::string& problem, std::optional<int> thread) {
  for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
    for (const auto landing : {simt::Landing::at_once, simt::Landing::late}) {
      Buffer<float> x(256, 1.0f);
      simt::Emulator emulator({.seed = seed, .landing = landing});
      try {
        emulator.launch(Planted<Body>{}, {.x = 2}, {x.view()});
        ADD_FAILURE() << "no error; expected: " << problem;
      } catch (const Error& error) {
        EXPECT_THAT(error.problem(), HasSubstr(problem));
        EXPECT_THAT(error.where(), HasSubstr("kernel planted, block (1, 0, 0), thread "));
        if (thread) {
          EXPECT_THAT(error.where(), HasSubstr("thread " + std::to_string(*thread) + " (warp " +
                                               std::to_string(*thread / 32) + ", lane " +
                                               std::to_string(*thread % 32) + "), "));
        }
        EXPECT_THAT(error.where(), testing::EndsWith("faults_test.cc:" + std::to_string(planted_line)));
      }
      // The emulator serves on.
      EXPECT_NO_THROW(
          emulator.launch(Planted<decltype([](auto& lane, auto&) { lane.barrier(); })>{}, {}, {x.view()}));
    }
  }
}

bool chosen(auto& lane, int thread) {
  return lane.block().x == 1 && lane.thread() == thread;
}

TEST(Faults, BarrierThatOneLaneDoesNotReach) {
  expect_fault(
      [](auto& lane, auto&) {
        if (!chosen(lane, 37)) PLANT(lane.barrier());
      },
      "a barrier that not all lanes reach: barrier 0 has been reached by 63 of 64 threads; thread 37 (warp "
      "1, lane 5) has "
      "returned",
      0);
}

TEST(Faults, NamedBarrierThatOneWarpDoesNotReach) {
  expect_fault(
      [](auto& lane, auto&) {
        if (lane.block().x == 0 || lane.warp() == 0) {
          if (lane.block().x == 1) PLANT(lane.barrier(3, 64));
        }
      },
      "barrier 3 has been reached by 32 of 64 threads; thread 32 (warp 1, lane 0) has returned", 0);
}

TEST(Faults, NamedBarrierOfPartsOfWarps) {
  expect_fault(
      [](auto& lane, auto&) {
        if (lane.block().x == 1 && lane.index() < 16) PLANT(lane.barrier(1, 32));
      },
      "barrier 1 is met by parts of warps", std::nullopt);
}

TEST(Faults, NamedBarrierForUnequalNumbers) {
  expect_fault(
      [](auto& lane, auto&) {
        if (lane.block().x == 1) PLANT(lane.barrier(1, lane.warp() == 0 ? 32 + lane.index() / 31 * 32 : 64));
      },
      "barrier 1 is met for ", std::nullopt);
}

TEST(Faults, NamedBarrierThatDoesNotExist) {
  expect_fault(
      [](auto& lane, auto&) {
        if (chosen(lane, 9)) PLANT(lane.barrier(16, 64));
      },
      "barrier 16 for 64 threads", 9);
}

TEST(Faults, Deadlock) {
  expect_fault(
      [](auto& lane, auto&) {
        if (lane.block().x == 0) return;
        if (lane.warp() == 0) {
          PLANT(lane.barrier(1, 64));
        } else {
          lane.barrier(2, 64);
        }
        if (lane.thread() == 0) planted_line = 0;
      },
      "deadlock: barrier 1 has been reached by 32 of 64 threads; thread 32 (warp 1, lane 0) waits in barrier "
      "2 at ",
      0);
}

TEST(Faults, ShuffleWithAnInactiveLane) {
  expect_fault(
      [](auto& lane, auto&) {
        if (!chosen(lane, 37)) PLANT(lane.shuffle_xor(1.0f, 1));
      },
      "a shuffle with inactive lanes: thread 37 (warp 1, lane 5) has returned", 32);
}

TEST(Faults, VoteWithAnInactiveLane) {
  expect_fault(
      [](auto& lane, auto&) {
        if (!chosen(lane, 32)) PLANT(lane.any(true));
      },
      "a vote with inactive lanes: thread 32 (warp 1, lane 0) has returned", 33);
}

TEST(Faults, MmaWithLanesThatWaitElsewhere) {
  expect_fault(
      [](auto& lane, auto&) {
        simt::Accumulator d{};
        if (chosen(lane, 5)) lane.barrier();
        PLANT(lane.mma(d, simt::FragmentA<BFloat16>{}, simt::FragmentB<BFloat16>{}));
        lane.barrier();
      },
      "mma with inactive lanes: thread 5 (warp 0, lane 5) waits in barrier 0 at ", 0);
}

TEST(Faults, CollectivesOfOneWarpOnDifferentLines) {
  expect_fault(
      [](auto& lane, auto&) {
        if (lane.block().x == 0) return;
        if (lane.index() < 16) {
          PLANT(lane.shuffle(1.0f, 0));
        } else {
          PLANT(lane.ballot(true));
        }
      },
      " while other lanes of the warp wait in ", std::nullopt);
}

TEST(Faults, GlobalLoadOutOfBounds) {
  expect_fault(
      [](auto& lane, auto& p) {
        if (chosen(lane, 37)) PLANT(lane.load(p.x, 256));
      },
      "out of bounds: elements 256 to 256 of a global span of 256", 37);
}

TEST(Faults, GlobalStoreBeforeTheBegin) {
  expect_fault(
      [](auto& lane, auto& p) {
        if (chosen(lane, 3)) PLANT(lane.store(p.x.from(4), -1, 0.0f));
      },
      "out of bounds: elements -1 to -1 of a global span of 252", 3);
}

TEST(Faults, AtomicOutOfBounds) {
  expect_fault(
      [](auto& lane, auto& p) {
        if (chosen(lane, 3)) PLANT(lane.atomic_add(p.x, 1000, 0.0f));
      },
      "out of bounds: elements 1000 to 1000 of a global span of 256", 3);
}

TEST(Faults, SharedLoadOutOfBounds) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 32>{});
        lane.shared(Array<float, 32>{});  // what lies behind is no excuse
        if (chosen(lane, 63)) PLANT(lane.load(s, 32));
      },
      "out of bounds: elements 32 to 32 of a shared span of 32", 63);
}

TEST(Faults, SharedVectorThatStandsOut) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 30>{});
        if (chosen(lane, 63)) PLANT(lane.store(s, 28, simt::Pack<float, 4>{}));
      },
      "out of bounds: elements 28 to 31 of a shared span of 30", 63);
}

TEST(Faults, LdmatrixOutOfBounds) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<BFloat16, 512>{});
        for (int i = 0; i < 8; ++i) lane.store(s, 8 * lane.thread() + i, BFloat16(0.0f));
        lane.barrier();
        const int row = chosen(lane, 17) ? 512 : 8 * lane.index();
        PLANT(lane.ldmatrix(s, row, simt::Matrices<4>{}));
      },
      "out of bounds: elements 512 to 519 of a shared span of 512", 17);
}

TEST(Faults, CopyOutOfBounds) {
  expect_fault(
      [](auto& lane, auto& p) {
        const auto s = lane.shared(Array<float, 256>{});
        if (chosen(lane, 17)) PLANT(lane.copy_async(s, 0, p.x, 254));
      },
      "out of bounds: elements 254 to 257 of a global span of 256", 17);
}

TEST(Faults, MisalignedGlobalVector) {
  expect_fault(
      [](auto& lane, auto& p) {
        if (chosen(lane, 37)) PLANT(lane.load(p.x, 2, Width<4>{}));
      },
      "misaligned: 16 bytes at element 2 of a global span", 37);
}

TEST(Faults, MisalignedSharedVector) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<BFloat16, 64>{});
        if (chosen(lane, 37)) PLANT(lane.store(s, 1, simt::Pack<BFloat16, 2>{}));
      },
      "misaligned: 4 bytes at element 1 of a shared span", 37);
}

TEST(Faults, MisalignedRowOfLdmatrix) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<BFloat16, 512>{});
        for (int i = 0; i < 8; ++i) lane.store(s, 8 * lane.thread() + i, BFloat16(0.0f));
        lane.barrier();
        const int row = chosen(lane, 1) ? 4 : 8 * lane.index();
        PLANT(lane.ldmatrix(s, row, simt::Matrices<1>{}));
      },
      "misaligned: 16 bytes at element 4 of a shared span", 1);
}

// Block 0 wrote all of it, which must not count.
TEST(Faults, SharedMemoryNeverWritten) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        if (!chosen(lane, 40)) lane.store(s, lane.thread(), 1.0f);
        lane.barrier();
        const int mine = lane.thread() ^ 1;
        PLANT(lane.load(s, mine));
      },
      "reads shared memory that was never written", 41);
}

TEST(Faults, AtomicOnSharedMemoryNeverWritten) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        if (chosen(lane, 40)) PLANT(lane.atomic_add(s, 0, 1.0f));
      },
      "writes shared memory that was never written", 40);
}

TEST(Faults, RaceOfTwoWriters) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        const int to = chosen(lane, 40) ? 41 : lane.thread();
        PLANT(lane.store(s, to, 1.0f));
      },
      "a race: writes shared memory that thread 4", std::nullopt);
}

TEST(Faults, RaceOfAWriterAndAReader) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        lane.store(s, lane.thread(), 1.0f);
        lane.barrier();
        if (chosen(lane, 40) || chosen(lane, 7)) {
          const bool writes = lane.thread() == 7;
          writes ? PLANT(lane.store(s, 3, 1.0f)) : PLANT(void(lane.load(s, 3)));
        }
      },
      "a race: ", std::nullopt);
}

// Found by the writer, who comes last: one of many readers has not met it.
TEST(Faults, RaceWithOneOfManyReaders) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        if (lane.thread() == 0) lane.store(s, 0, 1.0f);
        lane.barrier();
        lane.load(s, 0);
        lane.sync_warp();
        lane.shuffle(1.0f, 0);
        if (lane.block().x == 0) return;
        lane.barrier(1 + lane.warp(), 32);
        if (lane.thread() == 0) PLANT(lane.store(s, 0, 2.0f));
      },
      "a race: ", 0);
}

// The second half of a warp reads what the first wrote. A shuffle between orders nothing.
TEST(Faults, RaceAcrossAShuffle) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        if (lane.block().x == 1) lane.store(s, lane.thread(), 1.0f);
        lane.shuffle(1.0f, 0);
        if (lane.block().x == 1 && lane.thread() == 40) PLANT(lane.load(s, 33));
      },
      "a race: reads shared memory that thread 33 wrote, with no barrier between", 40);
}

TEST(Faults, RaceAcrossTheBarriersOfSingleWarps) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 64>{});
        PLANT(lane.store(s, lane.thread(), 1.0f));
        lane.barrier(1 + lane.warp(), 32);
        if (lane.block().x == 0) return;
        lane.load(s, lane.thread() ^ 1);  // of its own warp: in order
        lane.barrier(1 + lane.warp(), 32);
        if (lane.thread() == 40) PLANT(lane.store(s, 2, 2.0f));
      },
      "a race: writes shared memory that thread ", std::nullopt);
}

TEST(Faults, RaceOfAnAtomicAndALoad) {
  expect_fault(
      [](auto& lane, auto&) {
        const auto s = lane.shared(Array<float, 1>{});
        if (lane.thread() == 0) lane.store(s, 0, 0.0f);
        lane.barrier();
        PLANT(lane.atomic_add(s, 0, 1.0f));
        lane.shuffle(1.0f, 0);
        if (chosen(lane, 40)) PLANT(lane.load(s, 0));
      },
      "a race: ", std::nullopt);
}

TEST(Faults, ReadingWhatIsBeingCopied) {
  expect_fault(
      [](auto& lane, auto& p) {
        const auto s = lane.shared(Array<float, 256>{});
        lane.copy_async(s, 4 * lane.thread(), p.x, 4 * lane.thread());
        lane.commit_copies();
        if (chosen(lane, 40)) PLANT(lane.load(s, 160));
        lane.wait_copies(Pending<0>{});
      },
      "reads shared memory that a copy of thread 40 is still writing", 40);
}

TEST(Faults, WaitingForTooFewCopies) {
  expect_fault(
      [](auto& lane, auto& p) {
        const auto s = lane.shared(Array<float, 512>{});
        lane.copy_async(s, 4 * lane.thread(), p.x, 4 * lane.thread());
        lane.commit_copies();
        lane.copy_async(s, 256 + 4 * lane.thread(), p.x, 4 * lane.thread());
        lane.commit_copies();
        lane.wait_copies(Pending<1>{});
        lane.load(s, 4 * lane.thread());
        if (chosen(lane, 40)) PLANT(lane.load(s, 256 + 160));
      },
      "reads shared memory that a copy of thread 40 is still writing", 40);
}

TEST(Faults, CopyThatWasNotCommitted) {
  expect_fault(
      [](auto& lane, auto& p) {
        const auto s = lane.shared(Array<float, 256>{});
        lane.copy_async(s, 4 * lane.thread(), p.x, 4 * lane.thread());
        lane.wait_copies(Pending<0>{});
        if (chosen(lane, 40)) PLANT(lane.load(s, 160));
      },
      "reads shared memory that a copy of thread 40 is still writing", 40);
}

TEST(Faults, CopyOfAnotherLaneWithoutABarrier) {
  expect_fault(
      [](auto& lane, auto& p) {
        const auto s = lane.shared(Array<float, 256>{});
        lane.copy_async(s, 4 * lane.thread(), p.x, 4 * lane.thread());
        lane.commit_copies();
        lane.wait_copies(Pending<0>{});
        lane.shuffle(1.0f, 0);
        if (chosen(lane, 40)) PLANT(lane.load(s, 4 * 41));
      },
      "a race: reads shared memory that thread 41 wrote, with no barrier between", 40);
}

TEST(Faults, CopyOntoWhatIsStillRead) {
  expect_fault(
      [](auto& lane, auto& p) {
        const auto s = lane.shared(Array<float, 256>{});
        if (lane.thread() == 0) lane.store(s, 0, 1.0f);
        lane.barrier();
        if (lane.warp() == 1) PLANT(lane.load(s, 0));
        if (chosen(lane, 0)) PLANT(lane.copy_async(s, 0, p.x, 0));
      },
      " shared memory that ", std::nullopt);
}

TEST(Faults, MoreSharedMemoryThanTheKernelSays) {
  expect_fault(
      [](auto& lane, auto&) {
        lane.shared(Array<float, 256>{});
        if (lane.block().x == 1) PLANT(lane.shared(Array<float, 257>{}));
      },
      "shared memory: 2052 bytes are asked for, shared_bytes has 2048", std::nullopt);
}

}  // namespace
}  // namespace trilith::test
