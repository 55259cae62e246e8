// What cuBLASLt is asked for: a matrix product, in all that its choice of an algorithm depends on.
//
// cuBLASLt takes matrices columns first. Rows first, as they lie here, c = op(a) · op(b) is to it
// cᵀ = op(b)ᵀ · op(a)ᵀ: its first factor is b, its second is a, and what is (rows, columns) is columns ×
// rows. No data moves.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/gemm.hpp>

namespace trilith::inline v0::ops {

enum class ElementType { float32, bfloat16, float16 };

template <class T>
requires std::same_as<T, float> || half<T>
constexpr ElementType element_type =
    std::same_as<T, float> ? ElementType::float32
                           : (std::same_as<T, BFloat16> ? ElementType::bfloat16 : ElementType::float16);

// What is done to the product before it is stored. A side is what else is read or written.
enum class Epilogue {
  none,
  bias,                  // + vector
  bias_gelu,             // + vector, stored in the side matrix, then GELU
  gelu_gradient,         // · gelu'(side matrix)
  first_bias_gradient,   // vector = Σ over the inner dimension of the first factor
  second_bias_gradient,  // the same of the second
};

struct GemmKey {
  ElementType factors = ElementType::float32;
  ElementType result = ElementType::float32;
  Epilogue epilogue = Epilogue::none;
  bool accumulates = false;
  bool tf32 = false;
  bool transpose_first = false;
  bool transpose_second = false;
  // Columns first, as the strides: elements from column to column.
  Index rows = 0;
  Index columns = 0;
  Index inner = 0;
  Index first_stride = 0;
  Index second_stride = 0;
  Index result_stride = 0;
  Index side_stride = 0;
  // Bytes that the addresses are multiples of.
  int first_alignment = 0;
  int second_alignment = 0;
  int result_alignment = 0;
  int side_alignment = 0;
  int vector_alignment = 0;

  friend auto operator<=>(const GemmKey&, const GemmKey&) = default;
  friend bool operator==(const GemmKey&, const GemmKey&) = default;  // for nvcc
};

// At most 16 bytes, which is all that instructions ask for: the algorithm, and with it the bits of a result,
// must not depend on where in an arena a matrix happens to lie.
inline int alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address == 0 ? 16 : static_cast<int>(std::min<std::uintptr_t>(address & (~address + 1), 16));
}

// Of c = op(a) · op(b), or c += op(a) · op(b), without an epilogue. Throws Error where the shapes don't fit.
template <class T, class Result>
GemmKey gemm_key(Transpose transpose_a, Matrix<const T> a, Transpose transpose_b, Matrix<const T> b,
                 Matrix<Result> c, Accumulate accumulate) {
  static_assert(std::same_as<Result, T> || std::same_as<Result, float>,
                "gemm: the result has the factors' element type, or float");
  const int inner_of_a = transpose_a == Transpose::no ? 1 : 0;
  const int inner_of_b = transpose_b == Transpose::no ? 0 : 1;
  if (a.extent(inner_of_a) != b.extent(inner_of_b) || a.extent(1 - inner_of_a) != c.extent(0) ||
      b.extent(1 - inner_of_b) != c.extent(1)) {
    const auto words = [](Index rows, Index columns) {
      return std::to_string(rows) + " × " + std::to_string(columns);
    };
    throw Error("matrix product of " + words(a.extent(1 - inner_of_a), a.extent(inner_of_a)) + " and " +
                    words(b.extent(inner_of_b), b.extent(1 - inner_of_b)) + " into " +
                    words(c.extent(0), c.extent(1)),
                "the factors' inner extents must be equal, and the outer ones those of the result");
  }
  // The stride of a single row is of no account, but cuBLASLt wants it to span the row.
  const auto stride = [](const auto& matrix) { return std::max(matrix.stride(0), matrix.extent(1)); };
  return {.factors = element_type<T>,
          .result = element_type<Result>,
          .accumulates = accumulate == Accumulate::yes,
          .transpose_first = transpose_b == Transpose::yes,
          .transpose_second = transpose_a == Transpose::yes,
          .rows = c.extent(1),
          .columns = c.extent(0),
          .inner = a.extent(inner_of_a),
          .first_stride = stride(b),
          .second_stride = stride(a),
          .result_stride = stride(c),
          .first_alignment = alignment_of(b.data()),
          .second_alignment = alignment_of(a.data()),
          .result_alignment = alignment_of(c.data())};
}

}  // namespace trilith::inline v0::ops
