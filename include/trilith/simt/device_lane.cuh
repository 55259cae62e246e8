// A lane on the device: each primitive is one instruction, inlined away. The instruction's name stands beside
// it; its meaning is in the PTX ISA under that name. The contracts are those of simt/lane.hpp.
//
// What moves data or orders it is volatile and clobbers memory, so that the compiler keeps it where it
// stands.
#pragma once

#include <cstdint>
#include <type_traits>

#include <trilith/core/half.hpp>
#include <trilith/simt/fragment.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::simt {

class DeviceLane {
 public:
  TRILITH_DEVICE Dim3 block() const { return dim3_of(blockIdx.x, blockIdx.y, blockIdx.z); }
  TRILITH_DEVICE Dim3 grid() const { return dim3_of(gridDim.x, gridDim.y, gridDim.z); }
  TRILITH_DEVICE int thread() const {
    __builtin_assume(threadIdx.x < 1024);  // so that dividing it by a power of two is a shift
    return static_cast<int>(threadIdx.x);
  }
  TRILITH_DEVICE int index() const { return static_cast<int>(threadIdx.x % 32); }
  TRILITH_DEVICE int warp() const { return static_cast<int>(threadIdx.x / 32); }

  TRILITH_DEVICE void barrier() { __syncthreads(); }  // bar.sync 0
  TRILITH_DEVICE void barrier(int id, int threads) {  // bar.sync id, threads
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
  }
  TRILITH_DEVICE void sync_warp() { __syncwarp(); }  // bar.warp.sync

  template <class T>
  TRILITH_DEVICE T shuffle(T value, int source) {  // shfl.sync.idx
    return __shfl_sync(all_lanes, value, source);
  }
  template <class T>
  TRILITH_DEVICE T shuffle_up(T value, int lanes) {  // shfl.sync.up
    return __shfl_up_sync(all_lanes, value, lanes);
  }
  template <class T>
  TRILITH_DEVICE T shuffle_down(T value, int lanes) {  // shfl.sync.down
    return __shfl_down_sync(all_lanes, value, lanes);
  }
  template <class T>
  TRILITH_DEVICE T shuffle_xor(T value, int mask) {  // shfl.sync.bfly
    return __shfl_xor_sync(all_lanes, value, mask);
  }

  // vote.sync.ballot, .any, .all
  TRILITH_DEVICE std::uint32_t ballot(bool mine) { return __ballot_sync(all_lanes, mine); }
  TRILITH_DEVICE bool any(bool mine) { return __any_sync(all_lanes, mine) != 0; }
  TRILITH_DEVICE bool all(bool mine) { return __all_sync(all_lanes, mine) != 0; }

  template <class T, int N>
  TRILITH_DEVICE Shared<T> shared(Array<T, N>) {
    extern __shared__ __align__(128) unsigned char trilith_shared_memory[];
    const int offset = (shared_used_ + 127) / 128 * 128;
    shared_used_ = offset + N * static_cast<int>(sizeof(T));
    return {reinterpret_cast<T*>(trilith_shared_memory + offset), N};
  }

  // ld.global, ld.shared; with a Width of several elements .v2 or .v4 of what they amount to.
  template <class T>
  TRILITH_DEVICE std::remove_const_t<T> load(Global<T> from, Index index) {
    return from.data[index];
  }
  template <class T, int N>
  TRILITH_DEVICE Pack<std::remove_const_t<T>, N> load(Global<T> from, Index index, Width<N>) {
    return load_words<Pack<std::remove_const_t<T>, N>>(from.data + index);
  }
  template <class T>
  TRILITH_DEVICE std::remove_const_t<T> load(Shared<T> from, int index) {
    return from.data[index];
  }
  template <class T, int N>
  TRILITH_DEVICE Pack<std::remove_const_t<T>, N> load(Shared<T> from, int index, Width<N>) {
    return load_words<Pack<std::remove_const_t<T>, N>>(from.data + index);
  }

  // st.global, st.shared.
  template <class T>
  TRILITH_DEVICE void store(Global<T> to, Index index, std::type_identity_t<T> value) {
    to.data[index] = value;
  }
  // In words of PTX: the compiler splits a vector's store in two or four where it loses sight of its
  // alignment.
  template <class T, int N>
  TRILITH_DEVICE void store(Global<T> to, Index index, const Pack<T, N>& values) {
    const auto words = __builtin_bit_cast(Words<sizeof(values)>, values);
    const auto at = __cvta_generic_to_global(to.data + index);
    if constexpr (sizeof(values) == 16) {
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words.x), "r"(words.y),
                   "r"(words.z), "r"(words.w)
                   : "memory");
    } else if constexpr (sizeof(values) == 8) {
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(words.x), "r"(words.y) : "memory");
    } else {
      store_words(to.data + index, values);
    }
  }
  template <class T>
  TRILITH_DEVICE void store(Shared<T> to, int index, std::type_identity_t<T> value) {
    to.data[index] = value;
  }
  template <class T, int N>
  TRILITH_DEVICE void store(Shared<T> to, int index, const Pack<T, N>& values) {
    store_words(to.data + index, values);
  }

  TRILITH_DEVICE void atomic_add(Global<float> to, Index index, float value) {  // red.global.add.f32
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(to.data + index)), "f"(value)
                 : "memory");
  }
  TRILITH_DEVICE void atomic_add(Shared<float> to, int index, float value) {  // red.shared.add.f32
    asm volatile("red.shared.add.f32 [%0], %1;" ::"r"(address(to.data + index)), "f"(value) : "memory");
  }

  // cp.async.cg: past the first-level cache, which 16 bytes alone may.
  template <class T>
  TRILITH_DEVICE void copy_async(Shared<T> to, int to_index, Global<const std::type_identity_t<T>> from,
                                 Index from_index) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to.data + to_index)),
                 "l"(__cvta_generic_to_global(from.data + from_index))
                 : "memory");
  }
  // Its source size of 0 fills with zeros and reads nothing.
  template <class T>
  TRILITH_DEVICE void copy_async_or_zero(Shared<T> to, int to_index,
                                         Global<const std::type_identity_t<T>> from, Index from_index,
                                         bool read) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(to.data + to_index)),
                 "l"(__cvta_generic_to_global(from.data + from_index)), "r"(read ? 16 : 0)
                 : "memory");
  }
  TRILITH_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int N>
  TRILITH_DEVICE void wait_copies(Pending<N>) {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
  }

  template <half T>
  TRILITH_DEVICE void mma(Accumulator& d, const FragmentA<T>& a, const FragmentB<T>& b) {
    if constexpr (std::same_as<T, BFloat16>) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(d.x[0]), "+f"(d.x[1]), "+f"(d.x[2]), "+f"(d.x[3])
          : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(d.x[0]), "+f"(d.x[1]), "+f"(d.x[2]), "+f"(d.x[3])
          : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
    }
  }

  // ldmatrix.sync.aligned.m8n8.xN.shared.b16
  template <class T, int N>
  TRILITH_DEVICE Pairs<std::remove_const_t<T>, N> ldmatrix(Shared<T> from, int row, Matrices<N>) {
    Pairs<std::remove_const_t<T>, N> to;
    const unsigned at = address(from.data + row);
    if constexpr (N == 1) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                   : "=r"(to.x[0])
                   : "r"(at)
                   : "memory");
    } else if constexpr (N == 2) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                   : "=r"(to.x[0]), "=r"(to.x[1])
                   : "r"(at)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to.x[0]), "=r"(to.x[1]), "=r"(to.x[2]), "=r"(to.x[3])
                   : "r"(at)
                   : "memory");
    }
    return to;
  }
  // ldmatrix.sync.aligned.m8n8.xN.trans.shared.b16
  template <class T, int N>
  TRILITH_DEVICE Pairs<std::remove_const_t<T>, N> ldmatrix_transposed(Shared<T> from, int row, Matrices<N>) {
    Pairs<std::remove_const_t<T>, N> to;
    const unsigned at = address(from.data + row);
    if constexpr (N == 1) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                   : "=r"(to.x[0])
                   : "r"(at)
                   : "memory");
    } else if constexpr (N == 2) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                   : "=r"(to.x[0]), "=r"(to.x[1])
                   : "r"(at)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to.x[0]), "=r"(to.x[1]), "=r"(to.x[2]), "=r"(to.x[3])
                   : "r"(at)
                   : "memory");
    }
    return to;
  }

  TRILITH_DEVICE float exp2(float x) const {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
  TRILITH_DEVICE float reciprocal(float x) const {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }

 private:
  static constexpr unsigned all_lanes = 0xFFFFFFFFu;

  static TRILITH_DEVICE Dim3 dim3_of(unsigned x, unsigned y, unsigned z) {
    return {static_cast<int>(x), static_cast<int>(y), static_cast<int>(z)};
  }

  static TRILITH_DEVICE unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }

  // As one register or a vector of them, which is what the compiler moves by one instruction.
  template <int Bytes>
  using Words = std::conditional_t<
      Bytes == 16, uint4,
      std::conditional_t<Bytes == 8, uint2, std::conditional_t<Bytes == 4, unsigned, unsigned short>>>;

  template <class Pack>
  static TRILITH_DEVICE Pack load_words(const void* from) {
    using W = Words<sizeof(Pack)>;
    return __builtin_bit_cast(Pack, *static_cast<const W*>(from));
  }
  template <class Pack>
  static TRILITH_DEVICE void store_words(void* to, const Pack& values) {
    using W = Words<sizeof(Pack)>;
    *static_cast<W*>(to) = __builtin_bit_cast(W, values);
  }

  int shared_used_ = 0;  // known to the compiler
};

static_assert(lane<DeviceLane>, "DeviceLane must have every primitive");

}  // namespace trilith::inline v0::simt
