// What a lane on the emulator does by itself: who it is, and its loads, stores and copies, each checked and
// counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <trilith/simt/emulated/block.hpp>
#include <trilith/simt/emulated/pending_copies.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

class LaneMemory {
 public:
  LaneMemory(Block& block, int thread, PendingCopies& pending)
      : block_(block), thread_(thread), pending_(pending) {
    pending_.clear();
  }

  Dim3 block() const { return block_.index(); }
  Dim3 grid() const { return block_.shape().grid; }
  int thread() const { return thread_; }
  int index() const { return thread_ % warp_size; }
  int warp() const { return thread_ / warp_size; }

  template <class T, int N>
  Shared<T> shared(Array<T, N>, Place at = Place::here()) {
    static_assert(
        sizeof(T) % 2 == 0,
        "shared: elements must have an even number of bytes: who wrote what is recorded in pairs of them");
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

  void commit_copies() { pending_.commit(); }

  template <int N>
  void wait_copies(Pending<N>) {
    pending_.wait(N, [this](const AsyncCopy& copy) {
      if (block_.copies_land_late()) copy.land();
      block_.shared().end_copy(thread_, offset(copy.to), 16);
    });
  }

 protected:
  [[noreturn]] void fail(const Place& at, const std::string& problem, const std::string& remedy) const {
    block_.fail(thread_, at, problem, remedy);
  }

  // What a lane reads of shared memory; a load that is not noted is counted by who calls.
  template <class T>
  T* readable(Shared<T> span, int index, int count, const Place& at, bool noted = true) {
    T* data = checked("shared", span, index, count, at);
    const int bytes = count * static_cast<int>(sizeof(T));
    if (const auto conflict = block_.shared().read(thread_, offset(data), bytes)) fail(at, conflict, "reads");
    if (noted) note(Access::shared_load, data, bytes, at);
    return data;
  }

  Block& block_;
  int thread_;

 private:
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
    if (index < 0 || index + count > span.size) {
      fail(at,
           std::string("out of bounds: elements ") + std::to_string(index) + " to " +
               std::to_string(index + count - 1) + " of a " + space + " span of " + std::to_string(span.size),
           "an access stays within its span");
    }
    auto* data = span.data + index;
    const std::size_t bytes = count * sizeof(*data);
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
  void copy(Shared<T> to, int index, const T* from, const Place& at) {
    constexpr int count = 16 / sizeof(T);
    T* target = checked("shared", to, index, count, at);
    if (const auto conflict = block_.shared().begin_copy(thread_, offset(target), 16))
      fail(at, conflict, "copies to");
    note(Access::shared_store, target, 16, at);
    const AsyncCopy copy{reinterpret_cast<std::byte*>(target), reinterpret_cast<const std::byte*>(from)};
    if (!block_.copies_land_late()) copy.land();
    pending_.add(copy);
  }

  PendingCopies& pending_;
  int shared_used_ = 0;
};

}  // namespace trilith::inline v0::simt
