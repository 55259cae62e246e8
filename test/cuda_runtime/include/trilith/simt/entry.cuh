// Stands before the library's own simt/entry.cuh: what is launched runs a whole grid, on the emulator.
#pragma once

#include <string>

#include <trilith/core/error.hpp>
#include <trilith/simt/emulator.hpp>
#include <trilith/simt/lane.hpp>

#include "test/cuda_runtime/machine/running.hpp"

namespace trilith::inline v0::simt {

template <kernel K>
void entry(const typename K::Params params) {
  test::imitation::Running& running = test::imitation::running_launch();
  require(
      running.block == Dim3{.x = K::threads} && running.shared_bytes == K::shared_bytes,
      std::string("kernel ") + K::name + ": launched with other threads or shared memory than it asks for",
      "launch it with its own");
  running.emulator.launch(K{}, running.grid, params);
}

}  // namespace trilith::inline v0::simt
