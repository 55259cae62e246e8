// A lane on the emulator: to what it does by itself, its meetings with others.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <trilith/simt/emulated/block.hpp>
#include <trilith/simt/emulated/lane_memory.hpp>
#include <trilith/simt/emulated/matrix.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

class EmulatedLane : public LaneMemory {
 public:
  using LaneMemory::LaneMemory;

  void barrier(Place at = Place::here()) { block_.barrier(thread_, 0, block_.shape().threads, at); }

  void barrier(int id, int threads, Place at = Place::here()) {
    if (id == 0) fail(at, "barrier 0 is that of the block", "named barriers are 1 to 15");
    block_.barrier(thread_, id, threads, at);
  }

  void sync_warp(Place at = Place::here()) {
    int nothing = 0;
    block_.collect(thread_, Collective::warp_barrier, at, nothing,
                   [this](int* const*) { block_.shared().order().meet(1u << warp()); });
  }

  template <class T>
  T shuffle(T value, int source, Place at = Place::here()) {
    return exchange(value, source & 31, at);
  }
  template <class T>
  T shuffle_up(T value, int lanes, Place at = Place::here()) {
    return exchange(value, index() - lanes, at);
  }
  template <class T>
  T shuffle_down(T value, int lanes, Place at = Place::here()) {
    return exchange(value, index() + lanes, at);
  }
  template <class T>
  T shuffle_xor(T value, int mask, Place at = Place::here()) {
    return exchange(value, index() ^ mask, at);
  }

  std::uint32_t ballot(bool mine, Place at = Place::here()) {
    struct Vote {
      bool mine;
      std::uint32_t all;
    } vote{mine, 0};
    block_.collect(thread_, Collective::vote, at, vote, [](Vote* const* lanes) {
      std::uint32_t all = 0;
      for (int i = 0; i < warp_size; ++i) all |= static_cast<std::uint32_t>(lanes[i]->mine) << i;
      for (int i = 0; i < warp_size; ++i) lanes[i]->all = all;
    });
    return vote.all;
  }
  bool any(bool mine, Place at = Place::here()) { return ballot(mine, at) != 0; }
  bool all(bool mine, Place at = Place::here()) { return ballot(mine, at) == 0xFFFFFFFFu; }

  template <half T>
  void mma(Accumulator& d, const FragmentA<T>& a, const FragmentB<T>& b, Place at = Place::here()) {
    MmaOperand<T> operand{&d, &a, &b};
    block_.collect(thread_, Collective::mma, at, operand, [this](MmaOperand<T>* const* lanes) {
      ++block_.counters().mma;
      warp_mma<T>(lanes);
    });
  }

  template <class T, int N>
  Pairs<std::remove_const_t<T>, N> ldmatrix(Shared<T> from, int index, Matrices<N>,
                                            Place at = Place::here()) {
    return load_matrices<N>(from, index, false, at);
  }
  template <class T, int N>
  Pairs<std::remove_const_t<T>, N> ldmatrix_transposed(Shared<T> from, int index, Matrices<N>,
                                                       Place at = Place::here()) {
    return load_matrices<N>(from, index, true, at);
  }

  // ex2.approx.ftz takes subnormal numbers for zero, and gives none. Its last two bits may differ.
  float exp2(float x) const {
    const float result = std::exp2(x);
    return result < 0x1p-126f ? 0.0f : result;
  }

  // 1 / x by rcp.approx.ftz, which takes subnormal numbers for zero, and gives none. Its last bit may differ.
  float reciprocal(float x) const {
    if (std::abs(x) < 0x1p-126f) return std::copysign(INFINITY, x);
    const float result = 1.0f / x;
    return std::abs(result) < 0x1p-126f ? std::copysign(0.0f, result) : result;
  }

 private:
  template <class T>
  T exchange(T value, int source, const Place& at) {
    static_assert(sizeof(T) == 4, "shuffle: a shuffle moves 4 bytes");
    struct Shuffle {
      T given;
      int source;
      T taken;
    } mine{value, source < 0 || source >= warp_size ? index() : source, value};
    block_.collect(thread_, Collective::shuffle, at, mine, [](Shuffle* const* lanes) {
      for (int i = 0; i < warp_size; ++i) lanes[i]->taken = lanes[lanes[i]->source]->given;
    });
    return mine.taken;
  }

  template <int N, class T>
  Pairs<std::remove_const_t<T>, N> load_matrices(Shared<T> from, int row, bool transposed, const Place& at) {
    static_assert(half<std::remove_const_t<T>>, "ldmatrix: elements have 16 bits");
    LdmatrixOperand operand{};
    if (index() < 8 * N) operand.row = reinterpret_cast<const std::byte*>(readable(from, row, 8, at, false));
    block_.collect(thread_, Collective::ldmatrix, at, operand,
                   [this, transposed](LdmatrixOperand* const* lanes) {
                     warp_ldmatrix(lanes, N, transposed);
                     ++block_.counters().ldmatrix;
                     ++block_.counters().shared_loads.instructions;
                     std::uintptr_t rows[8];
                     for (int m = 0; m < N; ++m) {
                       for (int i = 0; i < 8; ++i)
                         rows[i] = reinterpret_cast<std::uintptr_t>(lanes[8 * m + i]->row);
                       block_.traffic(thread_).count_matrix(rows);
                     }
                   });
    Pairs<std::remove_const_t<T>, N> result;
    for (int m = 0; m < N; ++m) result.x[m] = operand.x[m];
    return result;
  }
};

static_assert(lane<EmulatedLane>, "EmulatedLane must have every primitive");

}  // namespace trilith::inline v0::simt
