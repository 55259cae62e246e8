#include <vector>

#include "bench/gpu/attention.cuh"
#include "bench/gpu/attention.hpp"

namespace trilith::bench {

void time_attention(Float16 element, const std::vector<int>& sequences, double limit, Results& results) {
  time_attention_of(element, sequences, limit, results);
}

void prove_attention(Float16 element) {
  prove_small_attention(element);
}

}  // namespace trilith::bench
