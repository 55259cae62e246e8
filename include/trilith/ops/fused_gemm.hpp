// Matrix products and what follows them, as one operation each. These serve every device: first the product,
// then the rest. A device whose library does both in one pass over the result has overloads of its own, which
// may round once where these round twice.
//
// T is that of the outputs. Shapes as in gemm, of which c or its counterpart is the result: (rows, columns).
#pragma once

#include <concepts>
#include <type_traits>

#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/gemm.hpp>

namespace trilith::inline v0::ops {

// c = op(a) · op(b) + bias in every row.
template <std::derived_from<Stream> S, class T>
void gemm_bias(const S& stream, Transpose transpose_a, Matrix<const std::type_identity_t<T>> a,
               Transpose transpose_b, Matrix<const std::type_identity_t<T>> b,
               Vector<const std::type_identity_t<T>> bias,  // (columns)
               Matrix<T> c) {
  gemm(stream, transpose_a, a, transpose_b, b, c);
  add_bias(stream, bias, c);
}

// x = op(a) · op(b) + bias, and y = gelu(x): the backward pass needs x.
template <std::derived_from<Stream> S, class T>
void gemm_bias_gelu(const S& stream, Transpose transpose_a, Matrix<const std::type_identity_t<T>> a,
                    Transpose transpose_b, Matrix<const std::type_identity_t<T>> b,
                    Vector<const std::type_identity_t<T>> bias,  // (columns)
                    Matrix<T> x, Matrix<std::type_identity_t<T>> y) {
  gemm(stream, transpose_a, a, transpose_b, b, x);
  add_bias_gelu(stream, bias, x, y);
}

// d = (op(a) · op(b)) · gelu'(x), element by element: the gradient of x, which gelu was applied to.
template <std::derived_from<Stream> S, class T>
void gemm_gelu_backward(const S& stream, Transpose transpose_a, Matrix<const std::type_identity_t<T>> a,
                        Transpose transpose_b, Matrix<const std::type_identity_t<T>> b,
                        Matrix<const std::type_identity_t<T>> x, Matrix<T> d) {
  gemm(stream, transpose_a, a, transpose_b, b, d);
  gelu_backward(stream, x, d);
}

// The gradients of a weight and of a bias: c = or += op(a) · op(b), and db = or += the sum of the rows of dy,
// which is a or b.
template <std::derived_from<Stream> S, class T>
void gemm_bias_gradient(const S& stream, Transpose transpose_a, Matrix<const T> a, Transpose transpose_b,
                        Matrix<const T> b, Matrix<float> c, Matrix<const T> dy, Vector<float> db,
                        Accumulate accumulate) {
  gemm(stream, transpose_a, a, transpose_b, b, c, accumulate);
  bias_gradient(stream, dy, db, accumulate);
}

}  // namespace trilith::inline v0::ops
