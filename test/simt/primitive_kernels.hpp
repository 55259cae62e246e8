// Kernels that use one primitive each. The emulator's tests run them; nvcc compiles them in primitives.cu.
#pragma once

#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::test {

struct OneWarp {
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
};

// For each thread of each block: its own ids, and the block's.
struct Ids {
  static constexpr const char* name = "ids";
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 0;
  struct Params {
    simt::Global<std::int32_t> out;  // (block, thread, 6)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const simt::Dim3 block = lane.block();
    const simt::Dim3 grid = lane.grid();
    const Index number = (Index{block.z} * grid.y + block.y) * grid.x + block.x;
    const Index first = (number * threads + lane.thread()) * 6;
    const int ids[6] = {lane.thread(), lane.index(), lane.warp(), block.x, block.y, block.z};
    TRILITH_UNROLL
    for (int i = 0; i < 6; ++i) lane.store(p.out, first + i, ids[i]);
  }
};

struct Shuffles : OneWarp {
  static constexpr const char* name = "shuffles";
  struct Params {
    simt::Global<const float> in;   // (32)
    simt::Global<std::int32_t> by;  // (32): a source lane for each
    simt::Global<float> out;        // (4, 32): by index, up, down, xor
    int distance;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const int i = lane.index();
    const float mine = lane.load(p.in, i);
    lane.store(p.out, i, lane.shuffle(mine, lane.load(p.by, i)));
    lane.store(p.out, 32 + i, lane.shuffle_up(mine, p.distance));
    lane.store(p.out, 64 + i, lane.shuffle_down(mine, p.distance));
    lane.store(p.out, 96 + i, lane.shuffle_xor(mine, p.distance));
  }
};

struct Votes : OneWarp {
  static constexpr const char* name = "votes";
  struct Params {
    simt::Global<std::uint32_t> out;  // (32, 3): ballot, any, all
    std::uint32_t mask;               // who votes yes
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const bool mine = (p.mask >> lane.index() & 1u) != 0;
    lane.store(p.out, 3 * lane.index(), lane.ballot(mine));
    lane.store(p.out, 3 * lane.index() + 1, lane.any(mine) ? 1u : 0u);
    lane.store(p.out, 3 * lane.index() + 2, lane.all(mine) ? 1u : 0u);
  }
};

// Fragments come and go as they are: lane by lane.
template <half T>
struct Mma : OneWarp {
  static constexpr const char* name = "mma";
  struct Params {
    simt::Global<const std::uint32_t> a;  // (32, 4)
    simt::Global<const std::uint32_t> b;  // (32, 2)
    simt::Global<float> d;                // (32, 4)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto a = lane.load(p.a, 4 * lane.index(), simt::Width<4>{});
    const auto b = lane.load(p.b, 2 * lane.index(), simt::Width<2>{});
    const auto d = lane.load(p.d, 4 * lane.index(), simt::Width<4>{});
    simt::Accumulator sum{{d[0], d[1], d[2], d[3]}};
    lane.mma(sum, simt::FragmentA<T>{{a[0], a[1], a[2], a[3]}}, simt::FragmentB<T>{{b[0], b[1]}});
    lane.store(p.d, 4 * lane.index(), simt::Pack<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
  }
};

template <int N, bool Transposed>
struct Ldmatrix : OneWarp {
  static constexpr const char* name = "ldmatrix";
  static constexpr int shared_bytes = 64 * N * 2;
  struct Params {
    simt::Global<const BFloat16> in;  // (N, 8, 8)
    simt::Global<std::uint32_t> out;  // (32, N)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto matrices = lane.shared(simt::Array<BFloat16, 64 * N>{});
    if (lane.index() < 8 * N) {
      lane.store(matrices, 8 * lane.index(), lane.load(p.in, 8 * lane.index(), simt::Width<8>{}));
    }
    lane.sync_warp();
    const int row = lane.index() % (8 * N) * 8;
    simt::Pairs<BFloat16, N> registers;
    if constexpr (Transposed) {
      registers = lane.ldmatrix_transposed(matrices, row, simt::Matrices<N>{});
    } else {
      registers = lane.ldmatrix(matrices, row, simt::Matrices<N>{});
    }
    TRILITH_UNROLL
    for (int m = 0; m < N; ++m) lane.store(p.out, N * lane.index() + m, registers.x[m]);
  }
};

// Three groups of copies; the last one reads every other 16 bytes and puts zeros for the rest.
struct Copies : OneWarp {
  static constexpr const char* name = "copies";
  static constexpr int shared_bytes = 3 * 128 * 4;
  struct Params {
    simt::Global<const float> in;  // (3, 32, 4)
    simt::Global<float> out;       // (3, 32, 4)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto buffer = lane.shared(simt::Array<float, 3 * 128>{});
    const int mine = 4 * lane.index();
    lane.copy_async(buffer, mine, p.in, mine);
    lane.commit_copies();
    lane.copy_async(buffer, 128 + mine, p.in, 128 + mine);
    lane.commit_copies();
    lane.copy_async_or_zero(buffer, 256 + mine, p.in, 256 + mine, lane.index() % 2 == 0);
    lane.commit_copies();
    const int other = 4 * (31 - lane.index());
    lane.wait_copies(simt::Pending<2>{});
    lane.sync_warp();
    lane.store(p.out, other, lane.load(buffer, other, simt::Width<4>{}));
    lane.wait_copies(simt::Pending<0>{});
    lane.sync_warp();
    lane.store(p.out, 128 + other, lane.load(buffer, 128 + other, simt::Width<4>{}));
    lane.store(p.out, 256 + other, lane.load(buffer, 256 + other, simt::Width<4>{}));
  }
};

// Every thread of every block adds its own number, in shared and in global memory.
struct Atomics {
  static constexpr const char* name = "atomics";
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 4;
  struct Params {
    simt::Global<float> sums;  // (2)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto sum = lane.shared(simt::Array<float, 1>{});
    if (lane.thread() == 0) lane.store(sum, 0, 0.0f);
    lane.barrier();
    lane.atomic_add(p.sums, 0, static_cast<float>(lane.thread()));
    lane.atomic_add(sum, 0, static_cast<float>(lane.thread()));
    lane.barrier();
    if (lane.thread() == 0) lane.atomic_add(p.sums, 1, lane.load(sum, 0));
  }
};

struct Exp2 : OneWarp {
  static constexpr const char* name = "exp2";
  struct Params {
    simt::Global<float> x;  // (32)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    lane.store(p.x, lane.index(), lane.exp2(lane.load(p.x, lane.index())));
  }
};

struct Reciprocal : OneWarp {
  static constexpr const char* name = "reciprocal";
  struct Params {
    simt::Global<float> x;  // (32)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    lane.store(p.x, lane.index(), lane.reciprocal(lane.load(p.x, lane.index())));
  }
};

template <half T>
struct Packing : OneWarp {
  static constexpr const char* name = "packing";
  struct Params {
    simt::Global<const float> x;      // (32, 2)
    simt::Global<std::uint32_t> out;  // (32)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto pair = lane.load(p.x, 2 * lane.index(), simt::Width<2>{});
    lane.store(p.out, lane.index(), pack_pair<T>(pair[0], pair[1]));
  }
};

// 16 bytes a lane through shared memory.
struct Vectors : OneWarp {
  static constexpr const char* name = "vectors";
  static constexpr int shared_bytes = 32 * 16;
  struct Params {
    simt::Global<const Float16> in;  // (32, 8)
    simt::Global<Float16> out;       // (32, 8): lane i's are lane 31 - i's
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto buffer = lane.shared(simt::Array<Float16, 32 * 8>{});
    lane.store(buffer, 8 * lane.index(), lane.load(p.in, 8 * lane.index(), simt::Width<8>{}));
    lane.sync_warp();
    lane.store(p.out, 8 * lane.index(), lane.load(buffer, 8 * (31 - lane.index()), simt::Width<8>{}));
  }
};

// Pairs of warps pass a number on through a barrier of their own, and then all through the block's.
struct NamedBarriers {
  static constexpr const char* name = "named barriers";
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 128 * 4;
  struct Params {
    simt::Global<std::int32_t> out;  // (2, 128)
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
    const auto numbers = lane.shared(simt::Array<std::int32_t, 128>{});
    const int t = lane.thread();
    lane.store(numbers, t, t);
    lane.barrier(1 + t / 64, 64);
    lane.store(p.out, t, lane.load(numbers, t ^ 63));
    lane.barrier();
    lane.store(p.out, 128 + t, lane.load(numbers, 127 - t));
  }
};

}  // namespace trilith::test
