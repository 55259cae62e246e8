// Memory as a kernel sees it: spans that carry their bounds, read and written through a lane.
//
// Neither kind of span dereferences by itself. A lane's load and store take a span and an index in elements;
// the device ignores the size, the emulator holds every access against it.
#pragma once

#include <concepts>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0::simt {

// Elements of global memory. Kernel parameters are made of these; the host gives pointer and size.
template <class T>
struct Global {
  T* data = nullptr;
  Index size = 0;

  // Implicit, as from T* to const T*.
  template <std::same_as<const T> C>
  // NOLINTNEXTLINE(google-explicit-constructor)
  TRILITH_HOST_DEVICE operator Global<C>() const {
    return {data, size};
  }

  // The elements from `first` on. Beyond the end it is empty, and what is read from it is out of bounds.
  TRILITH_HOST_DEVICE Global from(Index first) const { return {data + first, size - first}; }
};

// Elements of a block's shared memory, as a lane hands them out.
template <class T>
struct Shared {
  T* data = nullptr;
  int size = 0;

  template <std::same_as<const T> C>
  // NOLINTNEXTLINE(google-explicit-constructor)
  TRILITH_HOST_DEVICE operator Shared<C>() const {
    return {data, size};
  }

  TRILITH_HOST_DEVICE Shared part(int first, int count) const {
    return {data + first, count < size - first ? count : size - first};
  }
};

// What a kernel asks a lane for: `Shared<float> sums = lane.shared(Array<float, 32>{})`.
template <class T, int N>
struct Array {
  static_assert(N > 0, "Array<T, N>: N must be positive");
};

// How many elements one load takes: `lane.load(span, index, Width<8>{})` gives a Pack of 8.
template <int N>
struct Width {};

// N elements that one instruction loads or stores, 16 bytes at most; in memory aligned to their size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  static_assert(
      sizeof(T) * N <= 16 && (N & (N - 1)) == 0,
      "Pack<T, N>: one load or store moves 2, 4, 8 or 16 bytes; N must be a power of two that fits");
  T x[N];

  TRILITH_HOST_DEVICE T& operator[](int i) { return x[i]; }
  TRILITH_HOST_DEVICE const T& operator[](int i) const { return x[i]; }
};

// wait_copies(Pending<N>{}) returns when at most the newest N committed groups of copies are still under way.
template <int N>
struct Pending {
  static_assert(N >= 0, "Pending<N>: N must not be negative");
};

}  // namespace trilith::inline v0::simt
