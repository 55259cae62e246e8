#include <cmath>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/cuda/gemm.cuh>

#include "bench/gpu/gemm.hpp"
#include "bench/gpu/gpu.cuh"

namespace trilith::bench {

double gemm_rate(Results& results) {
  Gpu gpu;
  constexpr Index n = 8192;
  const auto a = Array<BFloat16>::random(gpu, n * n, 101);
  const auto b = Array<BFloat16>::random(gpu, n * n, 102);
  const Array<BFloat16> c(gpu, n * n);
  const auto square = [](const Array<BFloat16>& x) { return Matrix<BFloat16>(x.data(), {n, n}); };
  const auto multiply = [&] {
    ops::gemm(gpu.stream, ops::Transpose::no, square(a), ops::Transpose::no, square(b), square(c));
  };
  multiply();
  const Index row = n / 2 + 1;
  const Index columns = 64;
  const auto of_a = rows_on_host(gpu, a.data() + row * n, 1, n, n);
  const auto of_b = rows_on_host(gpu, b.data(), n, columns, n);
  const auto of_c = rows_on_host(gpu, c.data() + row * n, 1, columns, n);
  double error = 0;
  double norm = 0;
  for (Index column = 0; column < columns; ++column) {
    double expected = 0;
    for (Index i = 0; i < n; ++i) expected += double{of_a[i]} * double{of_b[i * columns + column]};
    error += std::pow(of_c[column] - expected, 2);
    norm += std::pow(expected, 2);
  }
  prove("gemm", std::sqrt(error / norm), 0x1p-8);

  const double rate = 2.0 * n * n * n / median_seconds(gpu.stream, multiply);
  results.add({"gemm/bf16/8192", rate * 1e-12, "TFLOP/s"});
  return rate;
}

}  // namespace trilith::bench
