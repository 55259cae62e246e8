// Runs kernels on the host, every access checked. Needs Boost.Context to link
// (`//bazel/system:boost_context`).
//
//   simt::Emulator emulator({.seed = 7, .landing = simt::Landing::late});
//   simt::Counters counters = emulator.launch(Scale{}, {.x = 4}, {.x = {data, size}, .factor = 2});
//
// The lanes of a block are fibers of one thread; blocks run one after the other. A lane runs until it meets
// others in a collective. What a kernel does wrong is thrown as an Error that names kernel, block, thread and
// line:
//
//   a barrier that not all lanes reach · a collective with inactive lanes · deadlock · accesses out of bounds
//   or misaligned reads of shared memory never written · races on shared memory · touching what a copy is
//   still writing
//
// Races on global memory are not looked for; running under several seeds shows their effects.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/simt/emulated/block.hpp>
#include <trilith/simt/emulated/fibers.hpp>
#include <trilith/simt/emulated/lane.hpp>
#include <trilith/simt/emulated/pending_copies.hpp>
#include <trilith/simt/emulated/shared_memory.hpp>
#include <trilith/simt/emulated/traffic.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

struct Emulation {
  std::uint64_t seed = 0;  // of what is random; 0 is the natural order of lanes and blocks
  Landing landing = Landing::at_once;
};

// Keeps its stacks and its shared memory from launch to launch. For one thread at a time.
class Emulator {
 public:
  explicit Emulator(Emulation options = {})
      : options_(options), fibers_(options.seed), random_(options.seed + 1) {}

  // Runs every block of the grid, and returns what they did.
  template <class K>
  Counters launch(const K& kernel, Dim3 grid, const params_of<K>& params) {
    Counters counters;
    Block block({K::name, grid, K::threads, K::shared_bytes}, fibers_, shared_, counters);
    if (pending_.size() < K::threads) pending_.resize(K::threads);
    for (const Dim3& index : order_of_blocks(grid)) {
      block.run(index, copies_land_late(), [&](int thread) {
        EmulatedLane lane(block, thread, pending_[thread]);
        kernel(lane, params);
      });
    }
    return counters;
  }

 private:
  // Those of the next block.
  bool copies_land_late() {
    if (options_.landing == Landing::either) return random_.below(2) == 0;
    return options_.landing == Landing::late;
  }

  std::vector<Dim3> order_of_blocks(Dim3 grid) {
    require(grid.x > 0 && grid.y > 0 && grid.z > 0, "launch: the grid is empty",
            "all three extents must be positive");
    std::vector<Dim3> order;
    order.reserve(static_cast<std::size_t>(grid.x) * grid.y * grid.z);
    for (int z = 0; z < grid.z; ++z) {
      for (int y = 0; y < grid.y; ++y) {
        for (int x = 0; x < grid.x; ++x) order.push_back({x, y, z});
      }
    }
    if (options_.seed != 0) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random_.below(static_cast<int>(i))]);
    }
    return order;
  }

  Emulation options_;
  Fibers fibers_;
  SharedMemory shared_;
  QuickRandom random_;
  std::vector<PendingCopies> pending_;
};

}  // namespace trilith::inline v0::simt
