// The arena: what is measured is what is taken, aligned, apart, and never more than can be counted.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/device/arena.hpp>
#include <trilith/device/host.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using testing::HasSubstr;

TEST(Arena, GivesAlignedPiecesThatDoNotOverlap) {
  Host::Memory memory;
  const auto [allocation, pieces] = allocate_planned<Host>(memory, [](Arena& arena) {
    std::vector<Vector<float>> pieces;
    for (const Index count : {1, 16, 17, 0, 100}) pieces.push_back(arena.take<float>(count));
    return pieces;
  });
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces[i].data()) % 64, 0u);
  }
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    EXPECT_GE(pieces[i].data(), pieces[i - 1].data() + pieces[i - 1].size());
  }
  EXPECT_LE(reinterpret_cast<const std::byte*>(pieces.back().data() + pieces.back().size()),
            allocation.data() + allocation.bytes());
}

TEST(Arena, BeginsEachRowOfAMatrixAtACacheLine) {
  Arena measure;
  const Matrix<float> matrix = measure.take_rows<float>(3, 17);
  EXPECT_EQ(matrix.stride(0), 32);
  EXPECT_EQ(measure.bytes(), 3u * 32 * sizeof(float));
}

TEST(Arena, RefusesWhatCannotBeCounted) {
  const auto said = [](Index rows, Index columns) {
    Arena measure;
    return error_of([&] { measure.take<float>(rows, columns); });
  };
  EXPECT_EQ(said(Index{1} << 30, Index{1} << 29), "");
  EXPECT_THAT(said(Index{1} << 31, Index{1} << 31), HasSubstr("more than 2^62 bytes"));
  EXPECT_THAT(said(Index{1} << 62, Index{1} << 62), HasSubstr("more than 2^62 bytes"));
  EXPECT_THAT(said(-1, 1), HasSubstr("more than 2^62 bytes"));
  Arena measure;
  measure.take<char>(Index{3} << 60);
  EXPECT_THAT(error_of([&] { measure.take<char>(Index{2} << 60); }), HasSubstr("more than 2^62 bytes"));
}

}  // namespace
}  // namespace trilith
