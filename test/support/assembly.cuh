// For sources that nvcc compiles only so that resources_test.sh can read what their kernels take: a stream
// whose kernels are compiled and never run, so that operations themselves say which kernels are in use.
#pragma once

#include <algorithm>
#include <cstddef>

#include <trilith/device/device.hpp>
#include <trilith/kernels/architecture.hpp>
#include <trilith/simt/entry.cuh>
#include <trilith/simt/lane.hpp>

namespace trilith::test {

struct Assembly : ops::Stream {
  template <simt::kernel K>
  void launch(const K&, simt::Dim3, const typename K::Params& params) const {
    constexpr int all = kernels::shared_kib_of_multiprocessor(kernels::architecture) * 1024;
    static_assert(std::max(1, simt::blocks_per_multiprocessor<K>) * (K::shared_bytes + 1024) <= all,
                  "kernel: a multiprocessor has no shared memory for blocks_per_multiprocessor blocks");
    simt::entry<K><<<1, K::threads>>>(params);
  }
  void* scratch(std::size_t) const { return nullptr; }
};

}  // namespace trilith::test
