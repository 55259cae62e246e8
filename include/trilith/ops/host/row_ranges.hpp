// Which keys the queries of a tile see: per row, per strip of simd::lanes rows, and for the tile. Everything
// that a mask allows to be skipped is skipped by what stands here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/simd.hpp>
#include <trilith/ops/host/tile_gemm.hpp>

namespace trilith::inline v0::ops::tile {

inline constexpr Index query_tile = 256;
inline constexpr Index key_tile = 128;

// [first, last); every interval with first ≥ last is empty.
struct Interval {
  Index first = 0;
  Index last = 0;

  bool empty() const { return first >= last; }
  Index size() const { return last - first; }

  // What of it lies in the `length` from `from` on, counted from there.
  Interval within(Index from, Index length) const {
    return {std::max<Index>(first - from, 0), std::min(last - from, length)};
  }
};

class RowRanges {
 public:
  // Of the queries [first, first + rows), query_tile at most.
  RowRanges(const KeyRanges& ranges, Index first, Index rows) {
    for (Index i = 0; i < rows; ++i) {
      first_[i] = ranges.first(first + i);
      last_[i] = ranges.last(first + i);
    }
    // The lanes of the last strip that are no queries see what the last query sees.
    for (Index i = rows; i < round_up(rows, simd::lanes); ++i) {
      first_[i] = first_[rows - 1];
      last_[i] = last_[rows - 1];
    }
    for (Index row = 0; row < rows; row += simd::lanes) measure(row);
  }

  // Keys that at least one query of the tile, or of the strip of rows from `row` on, sees (with what may lie
  // between), and those that all queries of the strip see.
  Interval hull() const { return hull_; }
  Interval hull(Index row) const { return hulls_[row / simd::lanes]; }
  Interval core(Index row) const { return cores_[row / simd::lanes]; }

  Interval of(Index row) const { return {first_[row], last_[row]}; }

  // The lanes of the strip of rows from `row` on that see `key`.
  simd::Ints lanes_that_see(Index row, Index key) const {
    const auto number = static_cast<std::int32_t>(key);
    simd::Ints first, last;
    std::memcpy(&first, first_ + row, sizeof first);
    std::memcpy(&last, last_ + row, sizeof last);
    return (first <= number) & (last > number);
  }

 private:
  static constexpr Index none = std::numeric_limits<std::int32_t>::max();

  void measure(Index row) {
    Interval hull{none, 0};
    Interval core{0, none};
    for (Index i = row; i < row + simd::lanes; ++i) {
      core = {std::max<Index>(core.first, first_[i]), std::min<Index>(core.last, last_[i])};
      if (first_[i] >= last_[i]) continue;
      hull = {std::min<Index>(hull.first, first_[i]), std::max<Index>(hull.last, last_[i])};
    }
    hulls_[row / simd::lanes] = hull;
    cores_[row / simd::lanes] = core;
    if (hull.empty()) return;
    hull_ = {std::min(hull_.first, hull.first), std::max(hull_.last, hull.last)};
  }

  alignas(64) std::int32_t first_[query_tile];
  alignas(64) std::int32_t last_[query_tile];
  Interval hulls_[query_tile / simd::lanes];
  Interval cores_[query_tile / simd::lanes];
  Interval hull_{none, 0};
};

// Of each strip of a panel an interval of what lies across it, counted within a tile: both ends rise from
// strip to strip.
using PanelStrips = std::array<Interval, static_cast<std::size_t>(vectors)>;

// The keys of a tile from `key` on that the strips of the panel of rows from `row` on see.
inline PanelStrips strips_of(const RowRanges& see, Index row, Index rows, Index key, Index length) {
  PanelStrips strips{};
  for (Index strip = 0; strip < vectors && row + strip * simd::lanes < rows; ++strip) {
    strips[static_cast<std::size_t>(strip)] = see.hull(row + strip * simd::lanes).within(key, length);
  }
  return strips;
}

// Cuts the strips of a panel into regions, so that a product can take what two strips share at once. Calls
// body(interval, first strip, number of strips); intervals begin at multiples of row_block.
template <class Body>
inline void for_each_region(const PanelStrips& strips, Body&& body) {
  static_assert(vectors <= 2, "for_each_region knows panels of one strip and of two");
  const auto give = [&](Index first, Index last, Index strip, Index count) {
    if (first < last) body(Interval{first, last}, strip, count);
  };
  const auto down = [](Index x) { return x / row_block * row_block; };
  const Interval a = strips.front();
  const Interval b = strips.back();
  if (vectors == 1 || b.empty()) return give(down(a.first), a.last, 0, 1);
  const Index shared_first = down(b.first);
  const Index shared_last = std::min(round_up(a.last, row_block), b.last);
  if (a.empty() || shared_first >= shared_last) {
    if (!a.empty()) give(down(a.first), a.last, 0, 1);
    return give(shared_first, b.last, 1, 1);
  }
  give(down(a.first), shared_first, 0, 1);
  give(shared_first, shared_last, 0, 2);
  give(shared_last, b.last, 1, 1);
}

}  // namespace trilith::inline v0::ops::tile
