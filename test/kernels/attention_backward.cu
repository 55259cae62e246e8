// Attention in 16 bits, backward, for nvcc: resources_test.sh looks at what it makes of the kernels.

#include <cstdint>

#include <trilith/ops/cuda/attention_backward.hpp>

#include "test/support/assembly.cuh"

namespace trilith::test {

const View<float, 3> per_query;

// Gradients of keys and values that are G.
template <ops::DqOrder order, half T, class G>
void pass(const Assembly& s) {
  using In = View<const T, 4>;
  using Gradient = View<G, 4>;
  ops::attention_backward<order>(s, In(), In(), In(), per_query, per_query, In(), {}, {}, {},
                                 View<float, 4>(), View<T, 4>(), Gradient(), Gradient(),
                                 Vector<std::int32_t>());
}

template <half T>
void operations(const Assembly& s) {
  ops::attention_delta(s, View<const T, 4>(), View<const T, 4>(), per_query);
  pass<ops::DqOrder::ascending, T, float>(s);
  pass<ops::DqOrder::ascending, T, T>(s);
  pass<ops::DqOrder::any, T, float>(s);
  pass<ops::DqOrder::any, T, T>(s);
}

void all_operations(const Assembly& s) {
  operations<BFloat16>(s);
  operations<Float16>(s);
  ops::attention_sinks_backward(s, per_query, per_query, {}, {}, Vector<float>());
}

}  // namespace trilith::test
