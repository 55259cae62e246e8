// Kernels that are bound by memory, in bf16: GB/s, and their share of what a copy on the same GPU reaches.
//
// 16384 tokens, hidden size 4096, a vocabulary of 50304. The bytes counted are the least: each operand read
// once, each result written once.
#include "bench/gpu/memory_bound.hpp"

#include "bench/gpu/program.hpp"

int main(int argc, char** argv) {
  return trilith::bench::run_benchmark("memory_bound", argc, argv, trilith::bench::measure_memory_bound);
}
