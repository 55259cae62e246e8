// Matrix products on the emulator's stream: by oneDNN, of what the factors are in float32; the sums are
// rounded once, when they are stored. A GPU's own library does no less.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/emulated.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/gemm.hpp>
#include <trilith/ops/host/gemm.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// A matrix in float32: itself where it is that already, or else a copy without gaps.
template <class T>
class Widened {
 public:
  explicit Widened(Matrix<const T> matrix) : extents_(matrix.extents()) {
    copy_.reserve(static_cast<std::size_t>(matrix.size()));
    for (Index i = 0; i < matrix.extent(0); ++i) {
      for (Index j = 0; j < matrix.extent(1); ++j) copy_.push_back(static_cast<float>(matrix(i, j)));
    }
  }

  Matrix<float> view() { return {copy_.data(), extents_}; }

 private:
  typename Matrix<const T>::Extents extents_;
  std::vector<float> copy_;
};
template <>
class Widened<float> {
 public:
  explicit Widened(Matrix<const float> matrix) : matrix_(matrix) {}
  Matrix<const float> view() const { return matrix_; }

 private:
  Matrix<const float> matrix_;
};

}  // namespace detail

// As ops/host/gemm.hpp says. Both factors have elements of one type, the product those or floats.
template <class A, class B, class C>
void gemm(const Emulated::Stream& stream, Transpose transpose_a, Matrix<A> a, Transpose transpose_b,
          Matrix<B> b, Matrix<C> c, Accumulate accumulate = Accumulate::no) {
  using T = std::remove_const_t<A>;
  static_assert(std::is_same_v<T, std::remove_const_t<B>>,
                "gemm: the factors must have elements of one type");
  detail::Widened<T> wide_a{Matrix<const T>(a)};
  detail::Widened<T> wide_b{Matrix<const T>(b)};
  if constexpr (std::is_same_v<C, float>) {
    gemm(stream.host(), transpose_a, wide_a.view(), transpose_b, wide_b.view(), c, accumulate);
  } else {
    detail::Widened<C> wide_c{Matrix<const C>(c)};
    gemm(stream.host(), transpose_a, wide_a.view(), transpose_b, wide_b.view(), wide_c.view(), accumulate);
    for (Index i = 0; i < c.extent(0); ++i) {
      for (Index j = 0; j < c.extent(1); ++j) c(i, j) = C(wide_c.view()(i, j));
    }
  }
}

}  // namespace trilith::inline v0::ops
