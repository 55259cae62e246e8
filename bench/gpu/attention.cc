// Attention on a GPU: TFLOP/s of the forward and the backward pass, and their share of cuBLASLt's rate.
//
// 16384 tokens; 4 · batch · heads · queries · keys · dimension operations forward, half of them where causal,
// and 2.5 times that backward. bf16 at every sequence length, f16 at one; backward with dq summed in
// ascending order, and in bf16 also in any.
#include "bench/gpu/attention.hpp"

#include <trilith/core/half.hpp>

#include "bench/gpu/gemm.hpp"
#include "bench/gpu/program.hpp"

int main(int argc, char** argv) {
  using namespace trilith;
  return bench::run_benchmark("attention", argc, argv, [](bool small, bench::Results& results) {
    if (small) {
      bench::prove_attention(BFloat16());
      bench::prove_attention(Float16());
      return;
    }
    const double limit = bench::gemm_rate(results);
    bench::time_attention(BFloat16(), {2048, 4096, 8192, 16384}, limit, results);
    bench::time_attention(Float16(), {8192}, limit, results);
  });
}
