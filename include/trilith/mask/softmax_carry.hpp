// The carry of an online softmax, and how two of them merge: what lets attention go over its keys in any
// order and in any number of pieces (Milakov and Gimelshein, arXiv:1805.02867; Rabe and Staats,
// arXiv:2112.05682).
//
// For scores x and values v a piece of the keys leaves m = max x, sum = Σ e^(x − m) and out = Σ e^(x − m) ·
// v. The merge of two pieces is that of all their keys; it is associative and commutative but for rounding,
// and its identity is the carry of no keys: m = −∞, sum = 0, out = 0. Nothing is divided before the last
// piece, so the result does not depend on the number of pieces but for rounding.
#pragma once

#include <limits>

namespace trilith::inline v0 {

// V: float, double, or a vector of them, one softmax a lane.
template <class V>
struct SoftmaxCarry {
  V maximum;  // −∞ before the first key
  V sum;
};

template <class V>
struct SoftmaxMerge {
  SoftmaxCarry<V> carry;
  V factor_a;  // of out that belongs to a: merged out = factor_a · out_a + factor_b · out_b
  V factor_b;
};

// Where no key is visible yet, e^(−∞ − 0) keeps every weight at 0; −∞ − (−∞) would be NaN.
template <class V>
inline V softmax_shift(V maximum) {
  return maximum == -std::numeric_limits<float>::infinity() ? V{} : maximum;
}

// exp: of V.
template <class V, class Exp>
inline SoftmaxMerge<V> merge(const SoftmaxCarry<V>& a, const SoftmaxCarry<V>& b, Exp&& exp) {
  const V maximum = a.maximum > b.maximum ? a.maximum : b.maximum;
  const V shift = softmax_shift(maximum);
  const V factor_a = exp(a.maximum - shift);
  const V factor_b = exp(b.maximum - shift);
  return {{maximum, a.sum * factor_a + b.sum * factor_b}, factor_a, factor_b};
}

}  // namespace trilith::inline v0
