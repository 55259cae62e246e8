// A step of training (forward, backward, update) on a GPU, in bf16 with float32 master weights: milliseconds,
// tokens/s, and the share of cuBLASLt's rate that its model FLOPs make up.
//
// Model FLOPs are 6 · parameters · tokens + 12 · layers · hidden · sequence · tokens, attention counted in
// full, as in bench/train_step.cc. A step ends when its loss is on the host, so the host's clock times it.
#include "bench/gpu/train_step.hpp"

#include "bench/gpu/program.hpp"

int main(int argc, char** argv) {
  return trilith::bench::run_benchmark("train_step", argc, argv, trilith::bench::measure_training);
}
