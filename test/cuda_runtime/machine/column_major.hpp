// Products of matrices that lie columns first, as cuBLASLt defines them with their epilogues.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <trilith/core/half.hpp>

namespace trilith::test::imitation {

inline std::size_t bytes_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

// Elements of any of the types, read and written as floats.
class Elements {
 public:
  Elements(const void* data, cudaDataType_t type)
      : data_(static_cast<std::byte*>(const_cast<void*>(data))), type_(type) {}

  float get(std::int64_t i) const {
    switch (type_) {
      case CUDA_R_16BF: return static_cast<float>(at<BFloat16>(i));
      case CUDA_R_16F: return static_cast<float>(at<Float16>(i));
      case CUDA_R_32F: break;
    }
    return at<float>(i);
  }
  void set(std::int64_t i, float value) const {
    switch (type_) {
      case CUDA_R_16BF: at<BFloat16>(i) = BFloat16(value); return;
      case CUDA_R_16F: at<Float16>(i) = Float16(value); return;
      case CUDA_R_32F: at<float>(i) = value; return;
    }
  }

 private:
  template <class T>
  T& at(std::int64_t i) const {
    return reinterpret_cast<T*>(data_)[i];
  }

  std::byte* data_;
  cudaDataType_t type_;
};

// The tanh approximation, and its derivative.
inline constexpr double root_of_two_over_pi = 0.7978845608028654;
inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(root_of_two_over_pi * (x + 0.044715 * x * x * x)));
}
inline double gelu_derivative(double x) {
  const double t = std::tanh(root_of_two_over_pi * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_of_two_over_pi * (1 + 3 * 0.044715 * x * x);
}

struct Factor {
  Elements elements;
  std::int64_t stride;  // of columns
  bool transposed;
  std::int64_t rows;  // of op(factor)
  std::int64_t columns;

  // op(factor), without gaps between its columns.
  std::vector<float> packed() const {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        values[static_cast<std::size_t>(i + j * rows)] =
            elements.get(transposed ? j + i * stride : i + j * stride);
      }
    }
    return values;
  }
};

struct Product {
  cublasLtMatmulDescOpaque_t description;
  float alpha;
  float beta;
  Factor a;
  Factor b;
  Elements c;
  Elements d;
  std::int64_t stride;  // of columns, of c and d
  cudaDataType_t type;  // of d, and so of the bias and of the auxiliary matrix
};

// D = epilogue(alpha · op(A) · op(B) + beta · C), with sums in float32 in ascending order.
inline void compute(const Product& p) {
  const std::int64_t rows = p.a.rows;
  const std::int64_t inner = p.a.columns;
  const std::int64_t columns = p.b.columns;
  const std::vector<float> a = p.a.packed();
  const std::vector<float> b = p.b.packed();
  const Elements bias(p.description.bias, p.type);
  const Elements auxiliary(p.description.auxiliary, p.type);
  const cublasLtEpilogue_t epilogue = p.description.epilogue;
  std::vector<float> sums(static_cast<std::size_t>(rows));
  for (std::int64_t j = 0; j < columns; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::int64_t k = 0; k < inner; ++k) {
      const float factor = b[static_cast<std::size_t>(k + j * inner)];
      const float* const column = a.data() + k * rows;
      for (std::int64_t i = 0; i < rows; ++i) sums[static_cast<std::size_t>(i)] += column[i] * factor;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t place = i + j * p.stride;
      const std::int64_t beside = i + j * p.description.auxiliary_stride;
      float value = p.alpha * sums[static_cast<std::size_t>(i)];
      if (p.beta != 0) value += p.beta * p.c.get(place);
      if (epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        value += bias.get(i);
      }
      if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        auxiliary.set(beside, value);
        value = static_cast<float>(gelu(value));
      }
      if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
        value *= static_cast<float>(gelu_derivative(auxiliary.get(beside)));
      }
      p.d.set(place, value);
    }
  }
  // Σ over the inner dimension: of a row of op(A), of a column of op(B).
  const auto sum_inner = [&](const std::vector<float>& values, std::int64_t count, std::int64_t step,
                             std::int64_t inner_step) {
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += values[static_cast<std::size_t>(i * step + k * inner_step)];
      }
      bias.set(i, sum);
    }
  };
  if (epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_inner(a, rows, 1, rows);
  if (epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_inner(b, columns, inner, 1);
}

}  // namespace trilith::test::imitation
