// A kernel, and what it sees of the machine: a lane.
//
//   struct Scale {
//     static constexpr const char* name = "scale";
//     static constexpr int threads = 128;     // of a block, a multiple of 32
//     static constexpr int shared_bytes = 0;  // what it asks of shared memory, in all
//     static constexpr int blocks_per_multiprocessor = 4;  // at least; may be left out
//     struct Params { simt::Global<float> x; float factor; };
//
//     template <simt::lane Lane>
//     TRILITH_DEVICE void operator()(Lane& lane, const Params& p) const {
//       const Index i = Index{lane.block().x} * threads + lane.thread();
//       if (i < p.x.size) lane.store(p.x, i, p.factor * lane.load(p.x, i));
//     }
//   };
//
// `DeviceLane` (simt/device_lane.cuh) turns each primitive into one instruction; `EmulatedLane`
// (simt/emulator.hpp) runs it on a fiber and checks it. Contracts, the same for both:
//
//   Collectives  barrier, sync_warp, shuffles, votes, mma and ldmatrix are reached by all lanes: of the
//                block, of the barrier's warps, or of the warp. Those of a warp are reached on one line.
//   Memory       A lane sees what another wrote to shared memory after both met in a barrier, or in
//                sync_warp; the rest orders nothing. Addresses are aligned to the bytes moved.
//   Copies       copy_async moves 16 bytes to shared memory, which nobody touches before the wait. After it
//                the lane that copied sees them; the others, after a barrier that follows.
#pragma once

#include <concepts>
#include <cstdint>

#include <trilith/core/half.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::simt {

constexpr int warp_size = 32;
constexpr int most_threads = 1024;            // of a block
constexpr int most_shared_bytes = 227 << 10;  // what a block may have on sm_90 and sm_100

struct Dim3 {
  int x = 1;
  int y = 1;
  int z = 1;
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

// clang-format off
template <class L>
concept lane = requires(L& l, int i, Index j, bool b, float f, std::uint32_t u, Global<float> global,
                        Shared<BFloat16> shared, Global<const BFloat16> source, Pack<BFloat16, 8> pack,
                        Accumulator& d, FragmentA<BFloat16> a, FragmentB<BFloat16> bb) {
  // Who am I: the block and the grid's extents, the thread in its block, the lane in its warp, the warp in its block.
  { l.block() } -> std::convertible_to<Dim3>;
  { l.grid() } -> std::convertible_to<Dim3>;
  { l.thread() } -> std::same_as<int>;
  { l.index() } -> std::same_as<int>;
  { l.warp() } -> std::same_as<int>;

  // Barriers of the block; of the `threads` that come to barrier `id` (1 to 15), whole warps; of a warp.
  l.barrier();
  l.barrier(i, i);
  l.sync_warp();

  // The value of lane `i`, of `i` lanes below, above, or of index ^ i; one's own where there is no such lane.
  { l.shuffle(f, i) } -> std::same_as<float>;
  { l.shuffle_up(f, i) } -> std::same_as<float>;
  { l.shuffle_down(f, i) } -> std::same_as<float>;
  { l.shuffle_xor(f, i) } -> std::same_as<float>;
  { l.ballot(b) } -> std::same_as<std::uint32_t>;
  { l.any(b) } -> std::same_as<bool>;
  { l.all(b) } -> std::same_as<bool>;

  // Uninitialised, aligned to 128 bytes; every lane asks for the same in the same order.
  { l.shared(Array<BFloat16, 64>{}) } -> std::same_as<Shared<BFloat16>>;
  { l.load(global, j) } -> std::same_as<float>;
  { l.load(shared, i, Width<8>{}) } -> std::same_as<Pack<BFloat16, 8>>;
  l.store(global, j, f);
  l.store(shared, i, pack);
  l.atomic_add(global, j, f);

  // 16 bytes from source[j] on to shared[i] on; or zeros, without reading, where b is false.
  l.copy_async(shared, i, source, j);
  l.copy_async_or_zero(shared, i, source, j, b);
  l.commit_copies();
  l.wait_copies(Pending<0>{});

  // d += a · b. ldmatrix takes, in lane 8m + r, the index of row r of matrix m.
  l.mma(d, a, bb);
  { l.ldmatrix(shared, i, Matrices<4>{}) } -> std::same_as<Pairs<BFloat16, 4>>;
  { l.ldmatrix_transposed(shared, i, Matrices<2>{}) } -> std::same_as<Pairs<BFloat16, 2>>;
  { l.exp2(f) } -> std::same_as<float>;
  { l.reciprocal(f) } -> std::same_as<float>;
};

template <class K>
concept kernel = requires {
  typename K::Params;
  { K::name } -> std::convertible_to<const char*>;
  { K::threads } -> std::convertible_to<int>;
  { K::shared_bytes } -> std::convertible_to<int>;
};
// clang-format on

namespace detail {

template <class K>
struct Launched {
  static_assert(kernel<K>, "kernel: it must have name, threads, shared_bytes and Params (see simt/lane.hpp)");
  struct Params {};
};
template <kernel K>
struct Launched<K> {
  static_assert(K::threads > 0 && K::threads % warp_size == 0 && K::threads <= most_threads,
                "kernel: threads must be a multiple of 32, from 32 to 1024");
  static_assert(K::shared_bytes <= most_shared_bytes, "kernel: shared_bytes must be at most 227 KiB");
  using Params = typename K::Params;
};

}  // namespace detail

// What a launch of K takes; what is no kernel, or asks for too much, does not compile with it.
template <class K>
using params_of = typename detail::Launched<K>::Params;

// How many blocks of a kernel a multiprocessor has registers and shared memory for, at least; 0: not stated.
// The compiler keeps within it. Where nothing is stated it guesses, and may spill for the sake of its guess.
template <kernel K>
inline constexpr int blocks_per_multiprocessor = 0;
template <kernel K>
requires requires {
  K::blocks_per_multiprocessor;
}
inline constexpr int blocks_per_multiprocessor<K> = K::blocks_per_multiprocessor;

}  // namespace trilith::inline v0::simt
