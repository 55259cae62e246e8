// Views of tensors: where their elements lie. A view never reads what it points to, so most of this is
// decided by the compiler.
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <type_traits>

#include <gtest/gtest.h>

#include <trilith/core/tensor.hpp>

namespace trilith {
namespace {

// 2 × 3 × 4, each element its own offset.
constexpr std::array<int, 24> offsets = [] {
  std::array<int, 24> values{};
  for (int i = 0; i < 24; ++i) values[i] = i;
  return values;
}();
constexpr View<const int, 3> cube(offsets.data(), {2, 3, 4});

TEST(View, LastDimensionIsFastest) {
  static_assert(cube.size() == 24);
  static_assert(cube.stride(0) == 12 && cube.stride(1) == 4 && cube.stride(2) == 1);
  static_assert(cube(0, 0, 3) == 3);
  static_assert(cube(0, 2, 0) == 8);
  static_assert(cube(1, 2, 3) == 23);
}

TEST(View, OfGivenStridesSkipsWhatLiesBetweenRows) {
  constexpr Matrix<const int> wide(offsets.data(), {3, 5}, {8, 1});
  static_assert(wide.size() == 15);
  static_assert(wide(0, 4) == 4);
  static_assert(wide(2, 4) == 20);
  static_assert(!wide.contiguous());
}

TEST(View, RowsLeaveTheFirstDimensionOut) {
  constexpr Matrix<const int> row = cube[1];
  static_assert(row.extent(0) == 3 && row.extent(1) == 4);
  static_assert(row(2, 3) == cube(1, 2, 3));
  constexpr Vector<const int> line = cube[1][2];
  static_assert(line.extent(0) == 4);
  static_assert(line(3) == cube(1, 2, 3));
}

TEST(View, SlicesKeepStridesAndShiftTheirOrigin) {
  constexpr View<const int, 3> part = cube.slice(1, 1, 2);
  static_assert(part.extents() == std::array<Index, 3>{2, 2, 4});
  static_assert(part.stride(0) == cube.stride(0));
  static_assert(part(1, 0, 2) == cube(1, 1, 2));
  constexpr View<const int, 3> corner = part.slice(0, 1, 1).slice(2, 2, 2);
  static_assert(corner.extents() == std::array<Index, 3>{1, 2, 2});
  static_assert(corner(0, 1, 1) == cube(1, 2, 3));
}

TEST(View, IsContiguousWhereNoElementIsSkipped) {
  static_assert(cube.contiguous());
  static_assert(cube[1].contiguous());
  static_assert(cube.slice(0, 1, 1).contiguous());
  static_assert(!cube.slice(1, 0, 2).contiguous());
  static_assert(!cube.slice(2, 0, 3).contiguous());
  // The stride of a dimension with one index is never used.
  static_assert(Matrix<const int>(offsets.data(), {1, 4}, {9, 1}).contiguous());
  static_assert(cube.slice(0, 0, 1).slice(1, 0, 2).contiguous());
}

TEST(View, FlatHasTheSameElementsInOneDimension) {
  constexpr Vector<const int> all = flat(cube);
  static_assert(all.extent(0) == 24);
  for (Index i = 0; i < all.size(); ++i) EXPECT_EQ(all(i), i);
}

TEST(View, OfMutableElementsServesAsOneOfConstOnes) {
  std::array<float, 6> values{};
  const Matrix<float> matrix(values.data(), {2, 2}, {3, 1});
  const Matrix<const float> same = matrix;
  matrix(1, 0) = 5;
  EXPECT_EQ(same(1, 0), 5);
  EXPECT_EQ(same.stride(0), 3);
  static_assert(!std::is_convertible_v<Matrix<const float>, Matrix<float>>);
  static_assert(std::is_same_v<Matrix<const float>::value_type, float>);
}

TEST(View, MadeOfNothingIsEmpty) {
  constexpr Matrix<float> nothing;
  static_assert(nothing.data() == nullptr && nothing.size() == 0);
  static_assert(Matrix<float>(nullptr, {0, 7}).size() == 0);
}

// 225304 × 9728 elements are more than an int counts. Their addresses are reserved, not their memory.
class LargeView : public testing::Test {
 protected:
  static constexpr Index rows = 225304;
  static constexpr Index columns = 9728;
  static constexpr std::size_t bytes = std::size_t{rows} * columns;
  static_assert(bytes > std::size_t{1} << 31);

  void SetUp() override {
    address_ = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(address_, MAP_FAILED);
  }
  void TearDown() override { ::munmap(address_, bytes); }

  Matrix<const char> matrix() const { return {static_cast<const char*>(address_), {rows, columns}}; }

 private:
  void* address_ = nullptr;
};

TEST_F(LargeView, OffsetsStayPositive) {
  const Matrix<const char> m = matrix();
  constexpr Index last = Index{rows} * columns - 1;
  EXPECT_EQ(m.size(), last + 1);
  EXPECT_EQ(&m(rows - 1, columns - 1) - m.data(), last);
  // As ints, which is what loops often count with.
  EXPECT_EQ(&m(225303, 9727) - m.data(), last);
  EXPECT_EQ(m[rows - 1].data() - m.data(), last + 1 - columns);
  EXPECT_EQ(m.slice(0, rows - 1, 1).data() - m.data(), last + 1 - columns);
  EXPECT_EQ(flat(m).size(), last + 1);
  EXPECT_EQ(&flat(m)(last) - m.data(), last);
  EXPECT_TRUE(m.contiguous());
}

}  // namespace
}  // namespace trilith
