// The launch that the imitation runs at the moment: what simt::entry<K> must know besides its parameters.
#pragma once

#include <cstddef>

#include <trilith/simt/emulator.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::test::imitation {

struct Running {
  simt::Emulator& emulator;
  simt::Dim3 grid;
  simt::Dim3 block;
  std::size_t shared_bytes;
};

// For simt::entry<K>, while it runs.
Running& running_launch();

}  // namespace trilith::test::imitation
