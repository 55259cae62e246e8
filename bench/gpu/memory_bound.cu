#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/adamw.hpp>
#include <trilith/ops/cuda/adamw.hpp>
#include <trilith/ops/cuda/algorithms.cuh>
#include <trilith/ops/cuda/cross_entropy.hpp>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/embedding.hpp>
#include <trilith/ops/cuda/gelu.hpp>
#include <trilith/ops/cuda/layer_norm.hpp>
#include <trilith/ops/cuda/rms_norm.hpp>
#include <trilith/ops/cuda/rotary.hpp>
#include <trilith/ops/cuda/swiglu.hpp>
#include <trilith/ops/host/adamw.hpp>
#include <trilith/ops/host/cross_entropy.hpp>
#include <trilith/ops/host/elementwise.hpp>
#include <trilith/ops/host/embedding.hpp>
#include <trilith/ops/host/gelu.hpp>
#include <trilith/ops/host/layer_norm.hpp>
#include <trilith/ops/host/rms_norm.hpp>
#include <trilith/ops/host/rotary.hpp>
#include <trilith/ops/host/swiglu.hpp>

#include "bench/gpu/gpu.cuh"
#include "bench/gpu/memory_bound.hpp"
#include "bench/gpu/operands.cuh"

namespace trilith::bench {
namespace {

constexpr Index tokens = 16384;
constexpr Index hidden = 4096;
constexpr Index feed_forward = 4 * hidden;
constexpr Index vocabulary = 50304;

constexpr auto no = Accumulate::no;
constexpr float epsilon = 1e-5f;

// Bytes read and written per second by a copy of 1 GiB within the GPU's memory.
double copy_bandwidth(Gpu& gpu, Results& results) {
  constexpr Index size = Index{1} << 28;
  const auto from = Array<float>::random(gpu, size, 1);
  const Array<float> to(gpu, size);
  const auto copy = [&] {
    gpu::check(cudaMemcpyAsync(to.data(), from.data(), std::size_t{4} * size, cudaMemcpyDeviceToDevice,
                               gpu.stream.get()),
               "cudaMemcpyAsync");
  };
  copy();
  constexpr Index last = 1 << 20;
  const auto end_of = [&](const Array<float>& x) {
    return rows_on_host(gpu, x.data() + size - last, 1, last, last);
  };
  prove("copy", end_of(from) == end_of(to) ? 0 : 1, 0);
  const double rate = 2.0 * 4 * size / median_seconds(gpu.stream, copy);
  results.add({"copy", rate * 1e-9, "GB/s"});
  return rate;
}

class Kernels {
 public:
  Kernels(bool small, Results& results) : results_(results) {
    if (!small) copy_rate_ = copy_bandwidth(gpu_, results);
  }

  // op(stream, operands) is proved against the host on a few rows. `bytes` are moved for each element of a
  // matrix.
  template <class Operation>
  void add(const char* name, Index columns, int matrices, int float_matrices, double bytes,
           const Operation& op) {
    {
      const GpuOperands<BFloat16> on_gpu(gpu_, 96, columns, matrices, float_matrices);
      const HostOperands on_host(gpu_, on_gpu.views());
      op(gpu_.stream, on_gpu.views());
      op(host_, on_host.views());
      // Results are rounded by 2^-9 at most, and some are of what has been rounded.
      prove(name, largest_difference(gpu_, on_gpu.views(), on_host.views()), 0x1p-7);
    }
    if (copy_rate_ == 0) return;
    const GpuOperands<BFloat16> operands(gpu_, tokens, columns, matrices, float_matrices);
    const double seconds = median_seconds(gpu_.stream, [&] { op(gpu_.stream, operands.views()); });
    const double rate = bytes * static_cast<double>(tokens * columns) / seconds;
    results_.add({name, rate * 1e-9, "GB/s", rate / copy_rate_, "copy"});
  }

 private:
  Gpu gpu_;
  Host::Stream host_{1};
  double copy_rate_ = 0;
  Results& results_;
};

void add_norms(Kernels& kernels) {
  kernels.add("layer_norm", hidden, 2, 0, 4, [](const auto& stream, const auto& v) {
    ops::layer_norm(stream, v.x[0], v.of_columns[0], v.of_columns[1], epsilon, v.x[1], v.of_rows[0],
                    v.of_rows[1]);
  });
  kernels.add("add_bias_residual_layer_norm", hidden, 3, 0, 8, [](const auto& stream, const auto& v) {
    ops::add_bias_residual_layer_norm(stream, v.of_columns[2], v.x[0], v.x[1], v.of_columns[0],
                                      v.of_columns[1], epsilon, v.x[2], v.of_rows[0], v.of_rows[1]);
  });
  kernels.add("layer_norm_backward", hidden, 4, 0, 8, [](const auto& stream, const auto& v) {
    ops::layer_norm_backward(stream, v.x[0], v.x[1], v.of_columns[0], v.of_rows[0], v.of_rows[1], v.x[2],
                             v.x[3], v.sums[0], v.sums[1], no);
  });
  kernels.add("rms_norm", hidden, 2, 0, 4, [](const auto& stream, const auto& v) {
    ops::rms_norm(stream, v.x[0], v.of_columns[0], epsilon, v.x[1], v.of_rows[0]);
  });
  kernels.add("add_residual_rms_norm", hidden, 3, 0, 8, [](const auto& stream, const auto& v) {
    ops::add_residual_rms_norm(stream, v.x[0], v.x[1], v.of_columns[0], epsilon, v.x[2], v.of_rows[0]);
  });
  kernels.add("rms_norm_backward", hidden, 4, 0, 8, [](const auto& stream, const auto& v) {
    ops::rms_norm_backward(stream, v.x[0], v.x[1], v.of_columns[0], v.of_rows[0], v.x[2], v.x[3], v.sums[0],
                           no);
  });
}

void add_activations(Kernels& kernels) {
  kernels.add("add_bias_gelu", feed_forward, 2, 0, 6, [](const auto& stream, const auto& v) {
    ops::add_bias_gelu(stream, v.of_columns[0], v.x[0], v.x[1]);
  });
  kernels.add("gelu_backward", feed_forward, 2, 0, 6,
              [](const auto& stream, const auto& v) { ops::gelu_backward(stream, v.x[0], v.x[1]); });
  kernels.add("swiglu", feed_forward, 3, 0, 6,
              [](const auto& stream, const auto& v) { ops::swiglu(stream, v.x[0], v.x[1], v.x[2]); });
  kernels.add("swiglu_backward", feed_forward, 5, 0, 10, [](const auto& stream, const auto& v) {
    ops::swiglu_backward(stream, v.x[0], v.x[1], v.x[2], v.x[3], v.x[4]);
  });
}

// One sequence of all rows, so a table of positions has as many.
void add_embeddings(Kernels& kernels) {
  kernels.add("embedding", hidden, 2, 0, 4,
              [](const auto& stream, const auto& v) { ops::embedding(stream, v.ids, v.x[0], 0, v.x[1]); });
  kernels.add("embedding_backward", hidden, 1, 1, 10, [](const auto& stream, const auto& v) {
    ops::embedding_backward(stream, v.ids, v.x[0], 0, v.f[0]);
  });
  kernels.add("add_positions", hidden, 2, 0, 6,
              [](const auto& stream, const auto& v) { ops::add_positions(stream, v.x[0], v.ids, v.x[1]); });
  kernels.add("positions_backward", hidden, 1, 1, 6, [](const auto& stream, const auto& v) {
    ops::positions_backward(stream, v.x[0], v.ids, v.f[0], no);
  });
  kernels.add("rotary", hidden, 1, 1, 4, [](const auto& stream, const auto& v) {
    constexpr Index dimension = 128;
    ops::rotary(stream, Matrix<const float>(v.f[0].data(), {v.f[0].extent(0), dimension}),
                v.heads(0, dimension));
  });
}

void add_losses(Kernels& kernels) {
  kernels.add("softmax_statistics", vocabulary, 1, 0, 2, [](const auto& stream, const auto& v) {
    ops::softmax_statistics(stream, v.x[0], vocabulary, v.ids, 0, v.of_rows[0], v.of_rows[1], v.of_rows[2]);
  });
  kernels.add("cross_entropy_backward", vocabulary, 1, 0, 4, [](const auto& stream, const auto& v) {
    ops::cross_entropy_backward(stream, v.x[0], vocabulary, v.ids, 0, v.of_rows[0], v.of_rows[1], 1.0f);
  });
}

void add_vectors(Kernels& kernels) {
  kernels.add("add", hidden, 2, 0, 6,
              [](const auto& stream, const auto& v) { ops::add(stream, flat(v.x[0]), flat(v.x[1])); });
  kernels.add("bias_gradient", hidden, 1, 0, 2,
              [](const auto& stream, const auto& v) { ops::bias_gradient(stream, v.x[0], v.sums[0], no); });
  kernels.add("copy_rounded", hidden, 1, 1, 6,
              [](const auto& stream, const auto& v) { ops::copy(stream, flat(v.f[0]), flat(v.x[0])); });
  kernels.add("adamw", hidden, 1, 4, 30, [](const auto& stream, const auto& v) {
    // Large rates, so that what they do to numbers about 1 is not lost in the tolerance.
    constexpr ops::AdamW settings{.learning_rate = 1, .beta1 = 0.5f, .beta2 = 0.5f};
    const auto update = [&](auto... weights) {
      ops::adamw(stream, settings, 2, 1.0f, flat(v.f[0]), flat(v.f[1]), flat(v.f[2]), flat(v.f[3]),
                 weights...);
    };
    if constexpr (std::is_same_v<decltype(stream), const Host::Stream&>) {
      update();
      ops::copy(stream, flat(v.f[0]), flat(v.x[0]));
    } else {
      update(flat(v.x[0]));
    }
  });
  kernels.add("sum_of_squares", hidden, 0, 1, 4, [](const auto& stream, const auto& v) {
    const Vector<const float> x = flat(v.f[0]);
    if constexpr (std::is_same_v<decltype(stream), const Host::Stream&>) {
      v.total(0) = std::inner_product(x.data(), x.data() + x.size(), x.data(), 0.0);
    } else {
      ops::sum_of_squares(stream, x, v.total);
    }
  });
}

}  // namespace

void measure_memory_bound(bool small, Results& results) {
  Kernels kernels(small, results);
  add_norms(kernels);
  add_activations(kernels);
  add_embeddings(kernels);
  add_losses(kernels);
  add_vectors(kernels);
}

}  // namespace trilith::bench
