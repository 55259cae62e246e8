// A lane on the emulator: every primitive checked, counted and carried out.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <trilith/simt/emulated/block.hpp>
#include <trilith/simt/emulated/matrix.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

// Copies that a lane has issued and not yet waited for. One object serves lane after lane, so that its memory
// stays.
struct PendingCopies {
  struct Copy {
    std::byte* to;
    const std::byte* from;  // nullptr: zeros
  };
  std::vector<Copy> copies;
  std::vector<std::size_t> groups;  // the end of each committed group in `copies`

  void clear() {
    copies.clear();
    groups.clear();
  }
};

class EmulatedLane {
 public:
  EmulatedLane(Block& block, int thread, PendingCopies& pending)
      : block_(block), thread_(thread), pending_(pending) {
    pending_.clear();
  }

  Dim3 block() const { return block_.index(); }
  Dim3 grid() const { return block_.shape().grid; }
  int thread() const { return thread_; }
  int index() const { return thread_ % warp_size; }
  int warp() const { return thread_ / warp_size; }

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

  template <class T, int N>
  Shared<T> shared(Array<T, N>, Place at = Place::here()) {
    shared_used_ = (shared_used_ + 127) / 128 * 128;
    T* data = reinterpret_cast<T*>(block_.shared().data() + shared_used_);
    shared_used_ += N * static_cast<int>(sizeof(T));
    if (shared_used_ > block_.shape().shared_bytes) {
      fail(at,
           "shared memory: " + std::to_string(shared_used_) + " bytes are asked for, shared_bytes has " +
               std::to_string(block_.shape().shared_bytes),
           "arrays begin at multiples of 128; raise shared_bytes");
    }
    return {data, N};
  }

  template <class T>
  std::remove_const_t<T> load(Global<T> from, Index index, Place at = Place::here()) {
    return get<std::remove_const_t<T>>(global(from, index, 1, Access::global_load, at));
  }
  template <class T, int N>
  Pack<std::remove_const_t<T>, N> load(Global<T> from, Index index, Width<N>, Place at = Place::here()) {
    return get<Pack<std::remove_const_t<T>, N>>(global(from, index, N, Access::global_load, at));
  }
  template <class T>
  std::remove_const_t<T> load(Shared<T> from, int index, Place at = Place::here()) {
    return get<std::remove_const_t<T>>(readable(from, index, 1, at));
  }
  template <class T, int N>
  Pack<std::remove_const_t<T>, N> load(Shared<T> from, int index, Width<N>, Place at = Place::here()) {
    return get<Pack<std::remove_const_t<T>, N>>(readable(from, index, N, at));
  }

  template <class T>
  void store(Global<T> to, Index index, std::type_identity_t<T> value, Place at = Place::here()) {
    put(global(to, index, 1, Access::global_store, at), value);
  }
  template <class T, int N>
  void store(Global<T> to, Index index, const Pack<T, N>& values, Place at = Place::here()) {
    put(global(to, index, N, Access::global_store, at), values);
  }
  template <class T>
  void store(Shared<T> to, int index, std::type_identity_t<T> value, Place at = Place::here()) {
    put(writable(to, index, 1, false, at), value);
  }
  template <class T, int N>
  void store(Shared<T> to, int index, const Pack<T, N>& values, Place at = Place::here()) {
    put(writable(to, index, N, false, at), values);
  }

  void atomic_add(Global<float> to, Index index, float value, Place at = Place::here()) {
    float* where = global(to, index, 1, Access::global_atomic, at);
    put(where, get<float>(where) + value);
  }
  void atomic_add(Shared<float> to, int index, float value, Place at = Place::here()) {
    float* where = writable(to, index, 1, true, at);
    put(where, get<float>(where) + value);
  }

  template <class T>
  void copy_async(Shared<T> to, int to_index, Global<const std::type_identity_t<T>> from, Index from_index,
                  Place at = Place::here()) {
    copy(to, to_index, global(from, from_index, 16 / sizeof(T), Access::global_load, at), at);
  }
  template <class T>
  void copy_async_or_zero(Shared<T> to, int to_index, Global<const std::type_identity_t<T>> from,
                          Index from_index, bool read, Place at = Place::here()) {
    copy(to, to_index, read ? global(from, from_index, 16 / sizeof(T), Access::global_load, at) : nullptr,
         at);
  }

  void commit_copies() { pending_.groups.push_back(pending_.copies.size()); }

  template <int N>
  void wait_copies(Pending<N>) {
    if (pending_.groups.size() <= N) return;
    const auto last = pending_.groups.end() - N;
    const std::size_t done = *(last - 1);
    for (std::size_t i = 0; i < done; ++i) finish(pending_.copies[i]);
    pending_.copies.erase(pending_.copies.begin(),
                          pending_.copies.begin() + static_cast<std::ptrdiff_t>(done));
    pending_.groups.erase(pending_.groups.begin(), last);
    for (std::size_t& end : pending_.groups) end -= done;
  }

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

 private:
  [[noreturn]] void fail(const Place& at, const std::string& problem, const std::string& remedy) const {
    block_.fail(thread_, at, problem, remedy);
  }

  template <class T>
  static T get(const void* from) {
    static_assert(std::is_trivially_copyable_v<T>, "load: T must be trivially copyable");
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <class T>
  static void put(void* to, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "store: T must be trivially copyable");
    std::memcpy(to, &value, sizeof(T));
  }

  // Elements index … index + count - 1, which must lie within the span and be aligned to their size together.
  template <class Span>
  auto checked(const char* space, const Span& span, Index index, int count, const Place& at) const {
    auto* data = span.data + index;
    const std::size_t bytes = count * sizeof(*data);
    if (index < 0 || index + count > span.size) {
      fail(at,
           std::string("out of bounds: elements ") + std::to_string(index) + " to " +
               std::to_string(index + count - 1) + " of a " + space + " span of " + std::to_string(span.size),
           "an access stays within its span");
    }
    if (reinterpret_cast<std::uintptr_t>(data) % bytes != 0) {
      fail(at,
           std::string("misaligned: ") + std::to_string(bytes) + " bytes at element " +
               std::to_string(index) + " of a " + space + " span",
           "an access is aligned to the bytes it moves");
    }
    return data;
  }

  template <class T>
  T* global(Global<T> span, Index index, int count, Access access, const Place& at) {
    T* data = checked("global", span, index, count, at);
    note(access, data, count * static_cast<int>(sizeof(T)), at);
    return data;
  }

  template <class T>
  T* readable(Shared<T> span, int index, int count, const Place& at, bool noted = true) {
    T* data = checked("shared", span, index, count, at);
    const int bytes = count * static_cast<int>(sizeof(T));
    if (const auto conflict = block_.shared().read(thread_, offset(data), bytes)) fail(at, conflict, "reads");
    if (noted) note(Access::shared_load, data, bytes, at);
    return data;
  }

  template <class T>
  T* writable(Shared<T> span, int index, int count, bool atomic, const Place& at) {
    T* data = checked("shared", span, index, count, at);
    const int bytes = count * static_cast<int>(sizeof(T));
    if (const auto conflict = block_.shared().write(thread_, offset(data), bytes, atomic))
      fail(at, conflict, "writes");
    note(Access::shared_store, data, bytes, at);
    return data;
  }

  [[noreturn]] void fail(const Place& at, const SharedMemory::Conflict& conflict, const char* deed) const {
    fail(at, describe(conflict, deed),
         conflict.kind == SharedMemory::Conflict::never_written  ? "write it first"
         : conflict.kind == SharedMemory::Conflict::being_copied ? "wait_copies and a barrier come before"
                                                                 : "put a barrier between");
  }

  std::size_t offset(const void* data) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(data) - block_.shared().data());
  }

  void note(Access access, const void* data, int bytes, const Place& at) {
    block_.traffic(thread_).add(index(), access, reinterpret_cast<std::uintptr_t>(data), bytes, at);
  }

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

  template <class T>
  void copy(Shared<T> to, int index, const T* from, const Place& at) {
    constexpr int count = 16 / sizeof(T);
    T* target = checked("shared", to, index, count, at);
    if (const auto conflict = block_.shared().begin_copy(thread_, offset(target), 16))
      fail(at, conflict, "copies to");
    note(Access::shared_store, target, 16, at);
    const PendingCopies::Copy copy{reinterpret_cast<std::byte*>(target),
                                   reinterpret_cast<const std::byte*>(from)};
    if (block_.shape().landing == Landing::at_once) land(copy);
    pending_.copies.push_back(copy);
  }

  static void land(const PendingCopies::Copy& copy) {
    if (copy.from != nullptr) {
      std::memcpy(copy.to, copy.from, 16);
    } else {
      std::memset(copy.to, 0, 16);
    }
  }

  void finish(const PendingCopies::Copy& copy) {
    if (block_.shape().landing == Landing::late) land(copy);
    block_.shared().end_copy(thread_, offset(copy.to), 16);
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

  Block& block_;
  int thread_;
  PendingCopies& pending_;
  int shared_used_ = 0;
};

static_assert(lane<EmulatedLane>, "EmulatedLane must have every primitive");

}  // namespace trilith::inline v0::simt
