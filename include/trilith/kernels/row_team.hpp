// Rows that a team of threads reads several times, such as those that are normalised: a warp or a block for
// each, which holds it in registers where it fits, so that it is loaded once.
#pragma once

#include <type_traits>

#include <trilith/core/device_code.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

struct RowTeam {
  int threads = simt::warp_size;  // that share a row: a warp, or a block of several
  int width = 1;                  // elements of a pack, which a load takes
  int packs = 0;                  // that a thread holds at most; 0: any number, loaded again each time

  constexpr int block_threads() const { return threads == simt::warp_size ? 4 * simt::warp_size : threads; }
  constexpr int warps() const { return threads / simt::warp_size; }
  constexpr int rows_of_block() const { return block_threads() / threads; }
  constexpr Index columns() const { return Index{threads} * width * packs; }  // that are held

  constexpr simt::Dim3 grid(Index rows) const {
    return {.x = static_cast<int>(ceil_divide(rows, Index{rows_of_block()}))};
  }

  bool operator==(const RowTeam&) const = default;
};

// Where a thread of a team stands: its row, and the first of its columns.
template <RowTeam Team>
struct TeamPlace {
  Index row;
  int column;

  template <simt::lane Lane>
  TRILITH_DEVICE explicit TeamPlace(Lane& lane)
      : row(Index{lane.block().x} * Team.rows_of_block() + lane.thread() / Team.threads),
        column(lane.thread() % Team.threads * Team.width) {}

  // f(i, column) for each of the thread's packs, pack i from `column` on. `columns` is a multiple of the
  // width.
  template <class F>
  TRILITH_DEVICE void for_each_pack(int columns, F f) const {
    constexpr int step = Team.threads * Team.width;
    if constexpr (Team.packs > 0) {
      TRILITH_UNROLL
      for (int i = 0; i < Team.packs; ++i) {
        if (column + i * step < columns) f(i, column + i * step);
      }
    } else {
      for (int i = 0; column + i * step < columns; ++i) f(i, column + i * step);
    }
  }
};

// The thread's packs of a row.
template <class T, RowTeam Team>
class TeamRow {
 public:
  TRILITH_DEVICE TeamRow(const StridedRows<const T>& from, Index row)
      : from_(from.elements), first_(row * from.stride) {}

  // From now on the row is read at another place, to which the thread writes its packs.
  TRILITH_DEVICE void move_to(const StridedRows<const T>& to, Index row) {
    from_ = to.elements;
    first_ = row * to.stride;
  }

  template <simt::lane Lane>
  TRILITH_DEVICE void load(Lane& lane, int i, int column) {
    if constexpr (Team.packs > 0) held_[i] = lane.load(from_, first_ + column, simt::Width<Team.width>{});
  }

  TRILITH_DEVICE void replace(int i, const simt::Pack<T, Team.width>& pack) {
    if constexpr (Team.packs > 0) held_[i] = pack;
  }

  // Pack i, which begins at `column`, after load() or replace().
  template <simt::lane Lane>
  TRILITH_DEVICE Floats<Team.width> get(Lane& lane, int i, int column) const {
    if constexpr (Team.packs > 0) {
      return to_floats(held_[i]);
    } else {
      return load_floats<Team.width>(lane, from_, first_ + column);
    }
  }

 private:
  simt::Global<const T> from_;
  Index first_;
  simt::Pack<T, Team.width> held_[Team.packs > 0 ? Team.packs : 1];
};

}  // namespace trilith::inline v0::kernels
