// Attention in float32, for nvcc: resources_test.sh looks at what it makes of the kernels.

#include <trilith/ops/cuda/attention_float.hpp>

#include "test/support/assembly.cuh"

namespace trilith::test {

void operations(const Assembly& s) {
  using In = View<const float, 4>;
  using Out = View<float, 4>;
  const View<float, 3> per_query;
  ops::attention(s, In(), In(), In(), {}, {}, Out(), per_query);
  ops::attention_delta(s, In(), In(), per_query);
  ops::attention_backward(s, In(), In(), In(), per_query, per_query, In(), {}, {}, {}, Out(), Out(), Out(),
                          Out());
}

}  // namespace trilith::test
