// Sixteen floats at a time, by the compilers' vector extensions: one source for every CPU, no intrinsics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0::ops::simd {

inline constexpr Index lanes = 16;

using Floats __attribute__((vector_size(64))) = float;
using Ints __attribute__((vector_size(64))) = std::int32_t;

inline Floats broadcast(float x) {
  return x - Floats{};
}

inline Floats load(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline void store(float* to, Floats x) {
  std::memcpy(to, &x, sizeof x);
}

// The first `count` (≤ lanes) floats; the other lanes are `fill`.
inline Floats load_first(const float* from, Index count, float fill = 0) {
  Floats x = broadcast(fill);
  std::memcpy(&x, from, static_cast<std::size_t>(count) * sizeof(float));
  return x;
}
inline void store_first(float* to, Floats x, Index count) {
  std::memcpy(to, &x, static_cast<std::size_t>(count) * sizeof(float));
}

inline Floats select(Ints condition, Floats yes, Floats no) {
  return condition ? yes : no;
}
inline Floats max(Floats a, Floats b) {
  return a > b ? a : b;
}
inline Floats min(Floats a, Floats b) {
  return a < b ? a : b;
}

// Sums of lanes are folded in halves: the order is fixed, so results repeat.
inline float sum(Floats x) {
  float lane[lanes];
  std::memcpy(lane, &x, sizeof x);
  for (Index half = lanes / 2; half > 0; half /= 2) {
    for (Index i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}
inline float max(Floats x) {
  float lane[lanes];
  std::memcpy(lane, &x, sizeof x);
  for (Index half = lanes / 2; half > 0; half /= 2) {
    for (Index i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  }
  return lane[0];
}

// 0, 1, 2, …: the number of each lane.
inline Ints lane_numbers() {
  return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

// Transposes a block of `lanes` rows. Of the eight bits of an element's address, four are the row's and four
// the lane's. Interleaving row i with row i + 8 rotates them by one, so four rounds swap row and lane.
inline void transpose(Floats (&rows)[lanes]) {
  for (int round = 0; round < 4; ++round) {
    Floats next[lanes];
    for (Index i = 0; i < lanes / 2; ++i) {
      const Floats a = rows[i];
      const Floats b = rows[i + lanes / 2];
      next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

// e^x for −86.6 ≤ x ≤ 88.7; anything else, NaN too, gives nonsense. x = n·ln 2 + r with |r| ≤ ln 2 / 2; e^r
// by its Taylor polynomial of degree 7 (truncation below 6e-9). In this range 2^n · e^r is a normal number,
// so n is added to the exponent that e^r has. Relative error at most 2 units in the last place.
inline Floats exp_bounded(Floats x) {
  constexpr float log2_e = 1.44269504088896341f;
  constexpr float ln2_high = 0.693145751953125f;  // 15 bits: n · ln2_high is exact
  constexpr float ln2_low = 1.428606765330187e-6f;
  constexpr float round = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer in the low bits

  const Floats shifted = x * log2_e + round;
  const Floats n = shifted - round;
  const Floats r = (x - n * ln2_high) - n * ln2_low;

  Floats p = broadcast(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return (Floats)((Ints)p + ((Ints)shifted << 23));
}

// e^x for every x: 0 below −86.6 (and for −∞), +∞ above 88.7, NaN stays NaN.
inline Floats exp(Floats x) {
  Floats result = exp_bounded(min(max(x, broadcast(-86.6f)), broadcast(88.7f)));
  result = x < -86.6f ? Floats{} : result;
  result = x > 88.7f ? broadcast(std::numeric_limits<float>::infinity()) : result;
  const Ints is_number = x <= x;
  return is_number ? result : x;
}

// tanh x for every x, NaN too: near 0, where 1 − 2 / (e^2|x| + 1) would cancel, by the [5/4] Padé
// approximant. Error at most 2e-7 of the result up to 1/2, 1.5e-7 beyond.
inline Floats tanh(Floats x) {
  const Floats magnitude = max(x, -x);
  const Floats square = x * x;
  const Floats near_zero =
      x * ((square + 105.0f) * square + 945.0f) / ((15.0f * square + 420.0f) * square + 945.0f);
  const Floats beyond = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
  const Floats result = magnitude < 0.5f ? near_zero : (x < 0.0f ? -beyond : beyond);
  const Ints is_number = x <= x;
  return is_number ? result : x;
}

// √x for x ≥ 0. A sqrt called lane by lane becomes a vector instruction only under -fno-math-errno, which
// users need not set. Newton's iteration for 1/√x from the well-known guess by halving the exponent: its
// error, 3.5 %, falls below 5e-6 in two steps, and a third step, on √x itself, squares that. Relative error
// at most 1 unit in the last place; 0 for subnormal numbers, +∞ and NaN stay.
inline Floats sqrt(Floats x) {
  Floats y = (Floats)(0x5f3759df - ((Ints)x >> 1));
  const Floats half = x * 0.5f;
  for (int step = 0; step < 2; ++step) y = y * (1.5f - half * y * y);
  const Floats root = x * y;
  Floats result = root + 0.5f * y * (x - root * root);
  result = x < std::numeric_limits<float>::min() ? Floats{} : result;
  return x < std::numeric_limits<float>::infinity() ? result : x;
}

// The width of a whole vector as a type, so that the compiler sees a constant.
using Whole = std::integral_constant<Index, lanes>;

// Calls body(i, width) for the vectors that make up [0, count): `width` is Whole{} for all but what is left
// over at the end, where it is an Index. With load_first and store_first one body serves both.
template <class Body>
inline void for_each_vector(Index count, Body&& body) {
  Index i = 0;
  for (; i + lanes <= count; i += lanes) body(i, Whole{});
  if (i < count) body(i, count - i);
}

// Combines the vectors term(i, width) of [0, count), which are `neutral` in lanes past the end. Four chains
// hide the latency of an operation; the order depends on `count` only.
template <class Combine, class Term>
inline Floats fold_vectors(Index count, Floats neutral, Combine&& combine, Term&& term) {
  Floats a = neutral;
  Floats b = neutral;
  Floats c = neutral;
  Floats d = neutral;
  Index i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = combine(a, term(i, Whole{}));
    b = combine(b, term(i + lanes, Whole{}));
    c = combine(c, term(i + 2 * lanes, Whole{}));
    d = combine(d, term(i + 3 * lanes, Whole{}));
  }
  for (; i + lanes <= count; i += lanes) a = combine(a, term(i, Whole{}));
  if (i < count) b = combine(b, term(i, count - i));
  return combine(combine(a, b), combine(c, d));
}

// The sum over [0, count) of term(i, width), which is 0 in lanes past the end.
template <class Term>
inline Floats sum_vectors(Index count, Term&& term) {
  return fold_vectors(
      count, Floats{}, [](Floats x, Floats y) { return x + y; }, term);
}

}  // namespace trilith::inline v0::ops::simd
