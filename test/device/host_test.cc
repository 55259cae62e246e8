// The host device: memory that is counted and bounded, and the parts that parallel work is cut into.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/device/host.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t page = 4096;

TEST(HostMemory, CountsWhatIsInUseAndItsPeak) {
  Host::Memory memory;
  {
    const Host::Allocation one = memory.allocate(1);
    const Host::Allocation other = memory.allocate(page + 1);
    EXPECT_EQ(one.bytes(), page);
    EXPECT_EQ(other.bytes(), 2 * page);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.data()) % 64, 0u);
    EXPECT_EQ(memory.bytes_in_use(), 3 * page);
  }
  EXPECT_EQ(memory.bytes_in_use(), 0u);
  EXPECT_EQ(memory.peak_bytes(), 3 * page);
}

TEST(Host, IsMadeFromAPlace) {
  EXPECT_EQ(Host::Stream(Place{.threads = 3}).threads(), 3);
  Host::Memory memory(Place{.poison = true});
  const Host::Allocation poisoned = memory.allocate(page);
  EXPECT_TRUE(std::isnan(*reinterpret_cast<const float*>(poisoned.data())));
}

TEST(HostMemory, MovesItsAllocationsAndFreesThemOnce) {
  Host::Memory memory;
  Host::Allocation kept = memory.allocate(page);
  std::byte* const data = kept.data();
  Host::Allocation taken = std::move(kept);
  EXPECT_EQ(taken.data(), data);
  EXPECT_EQ(memory.bytes_in_use(), page);
  taken = memory.allocate(2 * page);
  EXPECT_EQ(memory.bytes_in_use(), 2 * page);
}

TEST(HostMemory, IsPoisonedWhereAsked) {
  Host::Memory memory(true);
  const Host::Allocation allocation = memory.allocate(page);
  const auto* values = reinterpret_cast<const float*>(allocation.data());
  for (std::size_t i = 0; i < page / sizeof(float); ++i) EXPECT_TRUE(std::isnan(values[i]));
}

TEST(HostMemory, RefusesMoreThanTheMachineHas) {
  const std::size_t limit = Host::Memory::limit();
  ASSERT_GT(limit, std::size_t{1} << 28);
  Host::Memory memory;
  for (const std::size_t bytes : {limit + page, std::size_t{1} << 60, SIZE_MAX}) {
    EXPECT_THAT(error_of([&] { (void)memory.allocate(bytes); }),
                AllOf(HasSubstr("cannot allocate "), HasSubstr("of the " + std::to_string(limit) + " that")));
  }
  EXPECT_EQ(memory.bytes_in_use(), 0u);

  // All memories of a program count together. Nothing is written, so no page is taken.
  const Host::Allocation most = memory.allocate(limit / 4 * 3);
  Host::Memory other;
  EXPECT_THAT(error_of([&] { (void)other.allocate(limit / 2); }),
              HasSubstr("this program has " + std::to_string(most.bytes())));
  EXPECT_EQ(error_of([&] { (void)other.allocate(page); }), "");
}

TEST(HostStream, HasAThreadForEachGrainOfWork) {
  const Host::Stream stream(4);
  EXPECT_EQ(stream.team(0, 10), 1);
  EXPECT_EQ(stream.team(10, 10), 1);
  EXPECT_EQ(stream.team(11, 10), 2);
  EXPECT_EQ(stream.team(1000, 10), 4);
  EXPECT_EQ(stream.team(INT64_MAX, 1), 4);
  EXPECT_EQ(Host::Stream(0).threads(), 1);
}

TEST(HostStream, GivesEachIndexToOnePart) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const Index count : {0, 1, 7, 64, 1001}) {
      for (const Index grain : {1, 8, 5000}) {
        std::vector<int> times(static_cast<std::size_t>(count), 0);
        Host::Stream(threads).parallel_for(count, grain, [&](Index first, Index last) {
          for (Index i = first; i < last; ++i) ++times[static_cast<std::size_t>(i)];
        });
        EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(count), 1));
      }
    }
  }
}

}  // namespace
}  // namespace trilith
