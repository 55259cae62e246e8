// Ranks and coordinates: the one table of the design's order of axes, and what holds for every shape.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/parallel/parallelism.hpp>

namespace trilith {
namespace {

using Ranks = std::vector<int>;

constexpr Axis axes[] = {Axis::tensor, Axis::context, Axis::data, Axis::pipeline};

// Every rank has a coordinate inside the shape, which leads back to it. Since there are as many coordinates
// as ranks, no two ranks share one.
constexpr bool ranks_and_coordinates_are_one_to_one(const ParallelShape& shape) {
  for (int rank = 0; rank < shape.world(); ++rank) {
    const Coordinate c = shape.coordinate_of(rank);
    if (c.tensor < 0 || c.tensor >= shape.tensor || c.context < 0 || c.context >= shape.context ||
        c.data < 0 || c.data >= shape.data || c.pipeline < 0 || c.pipeline >= shape.pipeline) {
      return false;
    }
    if (shape.rank_of(c) != rank) return false;
  }
  return true;
}

static_assert(ranks_and_coordinates_are_one_to_one(Parallelism<1, 1, 1>::shape));
static_assert(ranks_and_coordinates_are_one_to_one(Parallelism<2, 2, 2, 2>::shape));
static_assert(ranks_and_coordinates_are_one_to_one(Parallelism<8, 1, 3, 5>::shape));
static_assert(ranks_and_coordinates_are_one_to_one(Parallelism<3, 7, 5, 2>::shape));
static_assert(ranks_and_coordinates_are_one_to_one(Parallelism<8, 8, 16>::shape));

template <class Check>
void for_each_shape(int most, Check&& check) {
  for (int tensor = 1; tensor <= most; ++tensor) {
    for (int pipeline = 1; pipeline <= most; ++pipeline) {
      for (int data = 1; data <= most; ++data) {
        for (int context = 1; context <= most; ++context) {
          check(ParallelShape{.tensor = tensor, .pipeline = pipeline, .data = data, .context = context});
        }
      }
    }
  }
}

std::string text(const ParallelShape& s) {
  return "TP=" + std::to_string(s.tensor) + " PP=" + std::to_string(s.pipeline) +
         " DP=" + std::to_string(s.data) + " CP=" + std::to_string(s.context);
}

TEST(ParallelShape, RanksAndCoordinatesAreOneToOne) {
  for_each_shape(6, [](const ParallelShape& shape) {
    EXPECT_TRUE(ranks_and_coordinates_are_one_to_one(shape)) << text(shape);
  });
}

// The order of axes, fastest first: tensor, context, data, pipeline.
TEST(ParallelShape, TensorRanksAreNeighboursAndPipelineRanksFarthestApart) {
  constexpr ParallelShape shape{.tensor = 2, .pipeline = 7, .data = 5, .context = 3};
  static_assert(shape.rank_of({.tensor = 1}) == 1);
  static_assert(shape.rank_of({.context = 1}) == 2);
  static_assert(shape.rank_of({.data = 1}) == 6);
  static_assert(shape.rank_of({.pipeline = 1}) == 30);
  static_assert(shape.coordinate_of(209) == Coordinate{.tensor = 1, .context = 2, .data = 4, .pipeline = 6});
  static_assert(shape.world() == 210);
}

constexpr ParallelShape two_each = Parallelism<2, 2, 2, 2>::shape;

TEST(ParallelShape, GroupsOfTwoRanksOnEachAxis) {
  static_assert(two_each.group(Axis::tensor, 0) == Ranks{0, 1});
  static_assert(two_each.group(Axis::tensor, 3) == Ranks{2, 3});
  static_assert(two_each.group(Axis::tensor, 14) == Ranks{14, 15});
  static_assert(two_each.group(Axis::context, 0) == Ranks{0, 2});
  static_assert(two_each.group(Axis::context, 3) == Ranks{1, 3});
  static_assert(two_each.group(Axis::context, 12) == Ranks{12, 14});
  static_assert(two_each.group(Axis::data, 4) == Ranks{0, 4});
  static_assert(two_each.group(Axis::data, 1) == Ranks{1, 5});
  static_assert(two_each.group(Axis::data, 15) == Ranks{11, 15});
  static_assert(two_each.group(Axis::pipeline, 0) == Ranks{0, 8});
  static_assert(two_each.group(Axis::pipeline, 9) == Ranks{1, 9});
  static_assert(two_each.group(Axis::pipeline, 7) == Ranks{7, 15});
}

// What makes groups of an axis a partition: each has as many ranks as the axis, ascending, with the rank
// itself in the place that its coordinate says, and all its members name the same group.
TEST(ParallelShape, EveryRankIsInExactlyOneGroupOfEachAxis) {
  for_each_shape(4, [](const ParallelShape& shape) {
    for (const Axis axis : axes) {
      std::set<Ranks> groups;
      for (int rank = 0; rank < shape.world(); ++rank) groups.insert(shape.group(axis, rank));
      std::vector<int> times(shape.world(), 0);
      for (const Ranks& group : groups) {
        EXPECT_EQ(static_cast<int>(group.size()), shape.along(axis));
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
        for (const int member : group) {
          ++times.at(member);
          EXPECT_EQ(shape.group(axis, member), group) << text(shape) << ", axis " << name_of(axis);
        }
      }
      EXPECT_EQ(times, std::vector<int>(shape.world(), 1)) << text(shape) << ", axis " << name_of(axis);
    }
  });
}

TEST(ParallelShape, MembersOfAGroupDifferOnlyAlongItsAxis) {
  constexpr ParallelShape shape{.tensor = 2, .pipeline = 4, .data = 3, .context = 5};
  for (int rank = 0; rank < shape.world(); ++rank) {
    for (const Axis axis : axes) {
      const Ranks group = shape.group(axis, rank);
      for (int i = 0; i < shape.along(axis); ++i) {
        Coordinate expected = shape.coordinate_of(rank);
        if (axis == Axis::tensor) expected.tensor = i;
        if (axis == Axis::context) expected.context = i;
        if (axis == Axis::data) expected.data = i;
        if (axis == Axis::pipeline) expected.pipeline = i;
        EXPECT_EQ(shape.coordinate_of(group[i]), expected) << name_of(axis) << " group of rank " << rank;
      }
    }
  }
}

TEST(ParallelShape, GradientsAreSummedOverDataAndContextRanks) {
  static_assert(two_each.gradient_group(0) == Ranks{0, 2, 4, 6});
  static_assert(two_each.gradient_group(5) == Ranks{1, 3, 5, 7});
  static_assert(two_each.gradient_group(10) == Ranks{8, 10, 12, 14});

  for_each_shape(3, [](const ParallelShape& shape) {
    std::set<Ranks> groups;
    for (int rank = 0; rank < shape.world(); ++rank) {
      Ranks expected;
      const Coordinate mine = shape.coordinate_of(rank);
      for (int other = 0; other < shape.world(); ++other) {
        const Coordinate c = shape.coordinate_of(other);
        if (c.tensor == mine.tensor && c.pipeline == mine.pipeline) expected.push_back(other);
      }
      EXPECT_EQ(shape.gradient_group(rank), expected) << text(shape) << ", rank " << rank;
      groups.insert(expected);
    }
    EXPECT_EQ(static_cast<int>(groups.size()), shape.tensor * shape.pipeline);
  });
}

TEST(ParallelShape, TiedEmbeddingsMeetBetweenFirstAndLastStageOfAPipeline) {
  constexpr ParallelShape shape = Parallelism<2, 4, 2>::shape;
  static_assert(shape.embedding_group(0, 0, 3) == Ranks{0, 12});
  static_assert(shape.embedding_group(12, 0, 3) == Ranks{0, 12});
  static_assert(shape.embedding_group(6, 0, 3) == Ranks{2, 14});
  static_assert(shape.embedding_group(9, 0, 3) == Ranks{1, 13});
  // In a V placement the first rank holds the last stage too; in another, other ranks may hold the two.
  static_assert(shape.embedding_group(13, 0, 0) == Ranks{1});
  static_assert(shape.embedding_group(0, 1, 2) == Ranks{4, 8});
  static_assert(Parallelism<2, 1, 2>::shape.embedding_group(3, 0, 0) == Ranks{3});
}

TEST(ParallelShape, NamesCoordinates) {
  EXPECT_EQ(to_string(Coordinate{.tensor = 1, .context = 2, .data = 3, .pipeline = 4}),
            "tensor 1, context 2, data 3, pipeline 4");
  EXPECT_STREQ(name_of(Axis::tensor), "tensor");
  EXPECT_STREQ(name_of(Axis::context), "context");
  EXPECT_STREQ(name_of(Axis::data), "data");
  EXPECT_STREQ(name_of(Axis::pipeline), "pipeline");
}

}  // namespace
}  // namespace trilith
