// A rotary embedding turns each row by its place in the whole sequence, wherever the rank that holds it.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <trilith/device/host.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/nn/rotary.hpp>
#include <trilith/ops/host.hpp>

namespace trilith {
namespace {

constexpr RotaryShape shape{.dimension = 6, .theta = 100};

// Every row of every rank has the angles that its position has on one rank.
template <class Split>
void expect_angles_of_global_positions(Index length, int ranks, Padding padding) {
  SCOPED_TRACE(std::string(Split::name) + " over " + std::to_string(ranks));
  const Host::Stream stream;
  Host::Memory memory;
  const Rotary<Host> whole(shape, LocalRows<Contiguous>(0, 1, length), length, memory, stream);
  const SequenceSplit<Split> split(length, ranks, padding);
  for (int rank = 0; rank < ranks; ++rank) {
    const LocalRows<Split> rows = split.rows_of(rank);
    const Rotary<Host> rotary(shape, rows, length, memory, stream);
    const Matrix<const float> table = rotary.table();
    ASSERT_EQ(table.extent(0), rows.size());
    for (Index row = 0; row < rows.size(); ++row) {
      const Index position = rows.position(row);
      for (Index i = 0; i < shape.dimension; ++i) {
        const float expected = position < length ? whole.table()(position, i) : i < 3 ? 1.0f : 0.0f;
        EXPECT_EQ(table(row, i), expected) << "rank " << rank << ", row " << row;
      }
    }
  }
}

TEST(Rotary, TurnsRowsByTheirPositionsInTheWholeSequence) {
  for (const int ranks : {1, 2, 4}) {
    expect_angles_of_global_positions<Contiguous>(16, ranks, Padding::no);
    expect_angles_of_global_positions<Striped>(16, ranks, Padding::no);
    expect_angles_of_global_positions<Zigzag>(16, ranks, Padding::no);
  }
}

TEST(Rotary, DoesNotTurnPadding) {
  for (const int ranks : {2, 3, 4}) expect_angles_of_global_positions<Zigzag>(11, ranks, Padding::yes);
}

}  // namespace
}  // namespace trilith
