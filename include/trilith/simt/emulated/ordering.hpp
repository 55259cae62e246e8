// What in a block happened before what: vector clocks, one entry for each pair of warps.
//
// Every meeting of warps (a barrier, sync_warp) is a tick. What a lane does carries the tick of its warp's
// last meeting. Since whole warps meet, the lanes of a warp know the same, and a table of warps by warps is
// enough. After C. Flanagan and S. Freund, "FastTrack: efficient and precise dynamic race detection", PLDI
// 2009.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace trilith::inline v0::simt {

class Ordering {
 public:
  using Tick = std::uint32_t;

  // Everything so far happened before everything to come. Ticks go on, so what is left of the last block is
  // old.
  void begin_block() {
    meet_all();
    start_ = now_;
  }
  Tick start() const { return start_; }
  bool nearly_worn_out() const { return now_ > (1u << 31); }
  void restart() { *this = Ordering(); }

  void meet_all() { all_met_ = ++now_; }

  // `warps` is a set, one bit each.
  void meet(std::uint32_t warps) {
    ++now_;
    std::array<Tick, 32> known{};
    for (std::uint32_t rest = warps; rest != 0; rest &= rest - 1) {
      const auto& theirs = known_[std::countr_zero(rest)];
      for (int w = 0; w < 32; ++w) known[w] = std::max(known[w], theirs[w]);
    }
    for (std::uint32_t rest = warps; rest != 0; rest &= rest - 1) known[std::countr_zero(rest)] = now_;
    for (std::uint32_t rest = warps; rest != 0; rest &= rest - 1) known_[std::countr_zero(rest)] = known;
  }

  // The tick of what a lane of `warp` does now.
  Tick clock(int warp) const { return std::max(all_met_, known_[warp][warp]); }

  // Whether what another lane of warp `other` did at `when` happened before what a lane of `warp` does now.
  bool before(Tick when, int other, int warp) const { return when < all_met_ || when < known_[warp][other]; }

 private:
  Tick now_ = 0;
  Tick start_ = 0;
  Tick all_met_ = 0;
  std::array<std::array<Tick, 32>, 32> known_{};  // [warp][other]: up to which tick warp knows what other did
};

}  // namespace trilith::inline v0::simt
