// The operations that memory bounds, for nvcc: resources_test.sh looks at what it makes of their kernels.

#include <cstdint>

#include <trilith/comm/reduce_ranks.hpp>
#include <trilith/ops/cuda/adamw.hpp>
#include <trilith/ops/cuda/cross_entropy.hpp>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/embedding.hpp>
#include <trilith/ops/cuda/gelu.hpp>
#include <trilith/ops/cuda/layer_norm.hpp>
#include <trilith/ops/cuda/rms_norm.hpp>
#include <trilith/ops/cuda/rotary.hpp>
#include <trilith/ops/cuda/swiglu.hpp>

#include "test/support/assembly.cuh"

namespace trilith::test {

using Integers = Vector<const std::int32_t>;
using Floats = Vector<float>;

template <class T>
void copies_to(const Assembly& s) {
  const auto from = [&]<class From>(From) {
    ops::copy(s, Vector<const From>(), Vector<T>());
    ops::copy(s, View<const From, 4>(), View<T, 4>());
  };
  from(0.0f);
  from(BFloat16());
  from(Float16());
}

template <class T>
void norms(const Assembly& s) {
  using In = Matrix<const T>;
  using Weights = Vector<const T>;
  const Matrix<T> out;
  ops::layer_norm(s, In(), Weights(), Weights(), 0, out, Floats(), Floats());
  ops::add_bias_residual_layer_norm(s, Weights(), In(), out, Weights(), Weights(), 0, out, Floats(),
                                    Floats());
  ops::layer_norm_backward(s, In(), In(), Weights(), Floats(), Floats(), out, Floats(), Floats(), {});
  ops::rms_norm(s, In(), Weights(), 0, out, Floats());
  ops::add_residual_rms_norm(s, In(), out, Weights(), 0, out, Floats());
  ops::rms_norm_backward(s, In(), In(), Weights(), Floats(), out, Floats(), {});
}

template <class T>
void operations(const Assembly& s) {
  using In = Matrix<const T>;
  const Vector<const T> weights;
  const Matrix<T> out;
  ops::add_bias(s, weights, out);
  ops::add_bias_residual(s, weights, In(), out);
  ops::bias_gradient(s, In(), Floats(), {});
  ops::add(s, Vector<const T>(), Vector<T>());
  ops::scale(s, 1, Vector<T>());
  ops::fill(s, Vector<T>(), 0);
  copies_to<T>(s);
  ops::gelu(s, In(), out);
  ops::add_bias_gelu(s, weights, out, out);
  ops::gelu_backward(s, In(), out);
  ops::swiglu(s, In(), In(), out);
  ops::swiglu_backward(s, In(), In(), In(), out, out);
  norms<T>(s);
  ops::rotary(s, Matrix<const float>(), View<T, 4>());
  ops::rotary_backward(s, Matrix<const float>(), View<T, 4>());
  ops::embedding(s, Integers(), In(), 0, out);
  ops::embedding_backward(s, Integers(), In(), 0, Matrix<float>());
  ops::add_positions(s, In(), Integers(), out);
  ops::positions_backward(s, In(), Integers(), Matrix<float>(), {});
  ops::softmax_statistics(s, In(), 0, Integers(), 0, Floats(), Floats(), Floats());
  ops::cross_entropy_backward(s, out, 0, Integers(), 0, Floats(), Floats(), 1);
  if constexpr (half<T>) {
    ops::adamw(s, {}, 1, 1, Floats(), Floats(), Floats(), Floats(), Vector<T>());
  } else {
    ops::adamw(s, {}, 1, 1, Floats(), Floats(), Floats(), Floats());
  }
}

// What communicators of threads launch, for all that they can be given.
template <class T>
void reductions(const Assembly& s) {
  s.launch(kernels::ReduceRanks<T, kernels::SumOfRanks, 16 / sizeof(T)>{}, {}, {});
  s.launch(kernels::ReduceRanks<T, kernels::SumOfRanks, 1>{}, {}, {});
  s.launch(kernels::ReduceRanks<T, kernels::MaxOfRanks, 16 / sizeof(T)>{}, {}, {});
  s.launch(kernels::ReduceRanks<T, kernels::MaxOfRanks, 1>{}, {}, {});
}

void all_operations(const Assembly& s) {
  operations<float>(s);
  operations<BFloat16>(s);
  operations<Float16>(s);
  ops::rotary_table(s, Integers(), 1, Matrix<float>());
  ops::rescale_sums(s, Floats(), Floats(), Floats());
  ops::cross_entropy_loss(s, Integers(), Floats(), Floats(), Floats(), Vector<double>());
  reductions<float>(s);
  reductions<double>(s);
  reductions<BFloat16>(s);
  reductions<Float16>(s);
}

}  // namespace trilith::test
