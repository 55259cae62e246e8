// A kernel that shows when its copies landed.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::test {

// What a copy reads is changed between its issue and the wait, which no kernel should do: this shows when it
// was read.
struct Overtaken {
  static constexpr const char* name = "overtaken";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 32 * 16;
  struct Params {
    simt::Global<float> x;  // (blocks, 32, 4)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto s = lane.shared(simt::Array<float, 128>{});
    const int mine = 4 * lane.index();
    const Index in_x = 128 * Index{lane.block().x} + mine;
    lane.copy_async(s, mine, p.x, in_x);
    lane.commit_copies();
    lane.store(p.x, in_x, 2.0f);
    lane.wait_copies(simt::Pending<0>{});
    lane.store(p.x, in_x, lane.load(s, mine));
  }
};

}  // namespace trilith::test
