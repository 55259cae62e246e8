// What a thread computes with: N floats at once, element by element, whatever the type they have in memory.
//
//   store_floats(lane, y, i, load_floats<8>(lane, x, i) * 2.0f + load_floats<8>(lane, bias, j));
//
// A load or a store is one instruction, of at most 16 bytes, aligned to what it moves.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// What a tensor's elements may be. All arithmetic is in float.
template <class T>
concept element = std::same_as<T, float> || half<T>;

// How many elements of each of these types a load takes, of 16 bytes where they are widest.
template <element... T>
constexpr int widest = (std::same_as<T, float> || ...) ? 4 : 8;

template <int N>
struct Floats {
  float x[N];

  TRILITH_HOST_DEVICE float& operator[](int i) { return x[i]; }
  TRILITH_HOST_DEVICE const float& operator[](int i) const { return x[i]; }
};

// f of the elements of one, or of the pairs of elements of two.
template <int N, class F>
TRILITH_DEVICE Floats<N> map(const Floats<N>& a, F f) {
  Floats<N> result;
  TRILITH_UNROLL
  for (int i = 0; i < N; ++i) result[i] = f(a[i]);
  return result;
}
template <int N, class F>
TRILITH_DEVICE Floats<N> map(const Floats<N>& a, const Floats<N>& b, F f) {
  Floats<N> result;
  TRILITH_UNROLL
  for (int i = 0; i < N; ++i) result[i] = f(a[i], b[i]);
  return result;
}

template <int N>
TRILITH_DEVICE Floats<N> operator+(const Floats<N>& a, const Floats<N>& b) {
  return map(a, b, [](float x, float y) { return x + y; });
}
template <int N>
TRILITH_DEVICE Floats<N> operator-(const Floats<N>& a, const Floats<N>& b) {
  return map(a, b, [](float x, float y) { return x - y; });
}
template <int N>
TRILITH_DEVICE Floats<N> operator*(const Floats<N>& a, const Floats<N>& b) {
  return map(a, b, [](float x, float y) { return x * y; });
}
template <int N>
TRILITH_DEVICE Floats<N> operator-(const Floats<N>& a, float b) {
  return map(a, [b](float x) { return x - b; });
}
template <int N>
TRILITH_DEVICE Floats<N> operator*(const Floats<N>& a, float b) {
  return map(a, [b](float x) { return x * b; });
}

template <int N>
TRILITH_DEVICE Floats<N> all_equal(float value) {
  Floats<N> result;
  TRILITH_UNROLL
  for (int i = 0; i < N; ++i) result[i] = value;
  return result;
}

template <int N>
TRILITH_DEVICE float total(const Floats<N>& a) {
  float sum = a[0];
  TRILITH_UNROLL
  for (int i = 1; i < N; ++i) sum += a[i];
  return sum;
}

template <element T, int N>
TRILITH_DEVICE Floats<N> to_floats(const simt::Pack<T, N>& pack) {
  Floats<N> result;
  TRILITH_UNROLL
  for (int i = 0; i < N; ++i) result[i] = static_cast<float>(pack[i]);
  return result;
}

// Rounded to T.
template <element T, int N>
TRILITH_DEVICE simt::Pack<T, N> to_pack(const Floats<N>& floats) {
  if constexpr (half<T> && N > 1) {
    struct Words {
      std::uint32_t x[N / 2];
    } words;
    TRILITH_UNROLL
    for (int i = 0; i < N / 2; ++i) words.x[i] = pack_pair<T>(floats[2 * i], floats[2 * i + 1]);
    return std::bit_cast<simt::Pack<T, N>>(words);
  } else {
    simt::Pack<T, N> pack;
    TRILITH_UNROLL
    for (int i = 0; i < N; ++i) pack[i] = T(floats[i]);
    return pack;
  }
}

// Elements index to index + N − 1.
template <int N, simt::lane Lane, class T>
TRILITH_DEVICE Floats<N> load_floats(Lane& lane, simt::Global<T> from, Index index) {
  return to_floats(lane.load(from, index, simt::Width<N>{}));
}

template <simt::lane Lane, element T, int N>
TRILITH_DEVICE void store_floats(Lane& lane, simt::Global<T> to, Index index, const Floats<N>& floats) {
  lane.store(to, index, to_pack<T>(floats));
}

}  // namespace trilith::inline v0::kernels
