// Attention of one shape on a GPU: its tensors, its passes, and how far they are from float64.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention.hpp>
#include <trilith/ops/cuda/attention_backward.hpp>
#include <trilith/ops/cuda/transfer.cuh>

#include "bench/gpu/gemm.hpp"
#include "bench/gpu/gpu.cuh"
#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

struct AttentionShape {
  Index batch;
  Index sequence;
  Index heads;
  Index dimension;
  bool causal;

  Index rows() const { return batch * sequence; }
  Index elements() const { return rows() * heads * dimension; }
  // Forward; backward it is 2.5 times that.
  double flops() const { return 4.0 * static_cast<double>(elements() * sequence) * (causal ? 0.5 : 1.0); }
};

template <half T>
class AttentionRun {
 public:
  // Whether backward passes that add to dq by atomics are of interest: of one element type, since each takes
  // a compiler its time.
  static constexpr bool sums_in_any_order = std::is_same_v<T, BFloat16>;

  AttentionRun(Gpu& gpu, const AttentionShape& shape)
      : gpu_(gpu),
        shape_(shape),
        q_(Array<T>::random(gpu, shape.elements(), 1)),
        k_(Array<T>::random(gpu, shape.elements(), 2)),
        v_(Array<T>::random(gpu, shape.elements(), 3)),
        d_out_(Array<T>::random(gpu, shape.elements(), 4)),
        out_(gpu, shape.elements()),
        dq_(gpu, shape.elements()),
        dk_(gpu, shape.elements()),
        dv_(gpu, shape.elements()),
        dq_carry_(gpu, sums_in_any_order ? shape.elements() : 0),
        lse_(gpu, shape.rows() * shape.heads),
        delta_(gpu, shape.rows() * shape.heads),
        first_(gpu, shape.sequence),
        last_(gpu, shape.sequence),
        room_(gpu, ops::attention_backward_room(shape.sequence)) {
    std::vector<std::int32_t> range(static_cast<std::size_t>(shape.sequence), 0);
    ops::upload(gpu.stream, range.data(), vector(first_));
    for (Index i = 0; i < shape.sequence; ++i) {
      range[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(seen(i));
    }
    ops::upload(gpu.stream, range.data(), vector(last_));
  }

  void forward() const {
    ops::attention(gpu_.stream, heads(q_), heads(k_), heads(v_), settings(), ranges(), heads(out_),
                   per_query(lse_));
  }

  template <ops::DqOrder order>
  void backward() const {
    ops::attention_delta(gpu_.stream, heads(out_), heads(d_out_), per_query(delta_));
    ops::attention_backward<order>(gpu_.stream, heads(q_), heads(k_), heads(v_), per_query(lse_),
                                   per_query(delta_), heads(d_out_), settings(), ranges(), ops::Hop{},
                                   heads(dq_carry_), heads(dq_), heads(dk_), heads(dv_), vector(room_));
  }

  // What no backward pass has written since is NaN.
  void forget_gradients() const {
    for (const Array<T>* x : {&dq_, &dk_, &dv_}) {
      gpu::check(cudaMemsetAsync(x->data(), 0xFF, static_cast<std::size_t>(x->size()) * sizeof(T),
                                 gpu_.stream.get()),
                 "cudaMemsetAsync");
    }
  }

  struct Errors {
    double out = 0;
    double gradients = 0;
  };

  // Of both passes, which have run: the largest ‖actual − expected‖ / ‖expected‖ of single rows, some of the
  // first and some of the last head. What is expected is computed in float64 from the inputs, and for keys
  // from out and lse too, which the rows of queries prove.
  Errors errors() const {
    Errors worst;
    for (const Index head : {Index{0}, shape_.batch * shape_.heads - 1}) {
      const Head h{
          of_head(q_, head),
          of_head(k_, head),
          of_head(v_, head),
          of_head(d_out_, head),
          of_head(out_, head),
          of_head(dq_, head),
          of_head(dk_, head),
          of_head(dv_, head),
          rows_on_host(gpu_, lse_.data() + head * shape_.sequence, 1, shape_.sequence, shape_.sequence)};
      for (const Index row : {Index{63}, Index{64}, shape_.sequence / 2, shape_.sequence - 1}) {
        add_query(h, row, worst);
        add_key(h, row, worst);
      }
    }
    return worst;
  }

 private:
  using Row = std::vector<double>;

  // (sequence, dimension) each, and (sequence).
  struct Head {
    std::vector<float> q, k, v, d_out, out, dq, dk, dv, lse;
  };

  Index seen(Index query) const { return shape_.causal ? query + 1 : shape_.sequence; }
  ops::AttentionSettings settings() const {
    return {.scale = 1 / std::sqrt(static_cast<float>(shape_.dimension))};
  }
  ops::KeyRanges ranges() const { return {vector(first_), vector(last_)}; }

  template <class E>
  static Vector<E> vector(const Array<E>& x) {
    return {x.data(), {x.size()}};
  }
  template <class E>
  View<E, 4> heads(const Array<E>& x) const {
    return {x.data(), {shape_.batch, shape_.sequence, shape_.heads, shape_.dimension}};
  }
  View<float, 3> per_query(const Array<float>& x) const {
    return {x.data(), {shape_.batch, shape_.heads, shape_.sequence}};
  }

  std::vector<float> of_head(const Array<T>& x, Index head) const {
    const View<T, 4> all = heads(x);
    return rows_on_host(gpu_, &all(head / shape_.heads, 0, head % shape_.heads, 0), shape_.sequence,
                        shape_.dimension, all.stride(1));
  }

  double dot(const std::vector<float>& a, Index row_a, const std::vector<float>& b, Index row_b) const {
    double sum = 0;
    for (Index c = 0; c < shape_.dimension; ++c) {
      sum += double{a[row_a * shape_.dimension + c]} * double{b[row_b * shape_.dimension + c]};
    }
    return sum;
  }
  void add(double factor, const std::vector<float>& x, Index row, Row& to) const {
    for (Index c = 0; c < shape_.dimension; ++c) to[c] += factor * double{x[row * shape_.dimension + c]};
  }
  double error(const std::vector<float>& actual, Index row, const Row& expected) const {
    double difference = 0;
    double norm = 0;
    for (Index c = 0; c < shape_.dimension; ++c) {
      difference += std::pow(double{actual[row * shape_.dimension + c]} - expected[c], 2);
      norm += std::pow(expected[c], 2);
    }
    const double relative = std::sqrt(difference / norm);
    return std::isnan(relative) ? INFINITY : relative;
  }
  Row zeros() const { return Row(static_cast<std::size_t>(shape_.dimension)); }

  void add_query(const Head& h, Index row, Errors& worst) const {
    const double scale = settings().scale;
    const Index keys = seen(row);
    Row weights(static_cast<std::size_t>(keys));
    for (Index j = 0; j < keys; ++j) weights[j] = scale * dot(h.q, row, h.k, j);
    const double most = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);

    Row out = zeros();
    double delta = 0;
    for (Index j = 0; j < keys; ++j) {
      weights[j] /= sum;
      add(weights[j], h.v, j, out);
      delta += weights[j] * dot(h.d_out, row, h.v, j);
    }
    Row dq = zeros();
    for (Index j = 0; j < keys; ++j) {
      add(scale * weights[j] * (dot(h.d_out, row, h.v, j) - delta), h.k, j, dq);
    }
    const double lse = most + std::log(sum);
    worst.out = std::max({worst.out, error(h.out, row, out), std::abs(double{h.lse[row]} - lse)});
    worst.gradients = std::max(worst.gradients, error(h.dq, row, dq));
  }

  void add_key(const Head& h, Index key, Errors& worst) const {
    const double scale = settings().scale;
    Row dk = zeros();
    Row dv = zeros();
    for (Index i = shape_.causal ? key : 0; i < shape_.sequence; ++i) {
      const double weight = std::exp(scale * dot(h.q, i, h.k, key) - double{h.lse[i]});
      const double delta = dot(h.d_out, i, h.out, i);
      add(weight, h.d_out, i, dv);
      add(scale * weight * (dot(h.d_out, i, h.v, key) - delta), h.q, i, dk);
    }
    worst.gradients = std::max({worst.gradients, error(h.dk, key, dk), error(h.dv, key, dv)});
  }

  Gpu& gpu_;
  AttentionShape shape_;
  Array<T> q_, k_, v_, d_out_, out_, dq_, dk_, dv_;
  Array<float> dq_carry_, lse_, delta_;
  Array<std::int32_t> first_, last_, room_;
};

inline std::string name_of(BFloat16) {
  return "bf16";
}
inline std::string name_of(Float16) {
  return "f16";
}

// Runs the passes and proves them. An element rounds by u: so do weights, outputs and, backward, the
// gradients of scores, each once. Sums of many round less, those of few add up.
template <half T>
void prove_passes(const AttentionRun<T>& run, const std::string& name) {
  constexpr double u = std::is_same_v<T, BFloat16> ? 0x1p-8 : 0x1p-11;
  const auto prove_backward = [&]<ops::DqOrder order>() {
    run.forget_gradients();
    run.template backward<order>();
    const auto errors = run.errors();
    prove(name + ", forward", errors.out, 2 * u);
    prove(name + ", backward", errors.gradients, 4 * u);
  };
  run.forward();
  prove_backward.template operator()<ops::DqOrder::ascending>();
  if constexpr (AttentionRun<T>::sums_in_any_order) {
    prove_backward.template operator()<ops::DqOrder::any>();
  }
}

template <half T>
void prove_small_attention(T element) {
  Gpu gpu;
  for (const bool causal : {true, false}) {
    for (const Index dimension : {64, 128, 256}) {
      const AttentionRun<T> run(gpu, {2, 200, 2, dimension, causal});
      prove_passes(run, "attention/" + name_of(element) + "/" + std::to_string(dimension));
    }
  }
}

// As in the measurements of the FlashAttention papers: 16384 tokens, and heads that make up 2048 columns.
template <half T>
void time_attention_of(T element, const std::vector<int>& sequences, double limit, Results& results) {
  constexpr Index tokens = 16384;
  constexpr Index columns = 2048;
  Gpu gpu;
  for (const Index dimension : {64, 128, 256}) {
    for (const bool causal : {true, false}) {
      for (const Index sequence : sequences) {
        const std::string name = name_of(element) + "/" + std::to_string(dimension) +
                                 (causal ? "/causal/" : "/full/") + std::to_string(sequence);
        const AttentionShape shape{tokens / sequence, sequence, columns / dimension, dimension, causal};
        const AttentionRun<T> run(gpu, shape);
        prove_passes(run, "attention/" + name);
        const auto add = [&](const char* pass, double flops, double seconds) {
          const double rate = flops / seconds;
          results.add({std::string("attention/") + pass + "/" + name, rate * 1e-12, "TFLOP/s", rate / limit,
                       gemm_limit});
        };
        add("forward", shape.flops(), median_seconds(gpu.stream, [&] { run.forward(); }));
        const auto add_backward = [&]<ops::DqOrder order>(const char* pass) {
          add(pass, 2.5 * shape.flops(), median_seconds(gpu.stream, [&] { run.template backward<order>(); }));
        };
        add_backward.template operator()<ops::DqOrder::ascending>("backward");
        if constexpr (AttentionRun<T>::sums_in_any_order) {
          add_backward.template operator()<ops::DqOrder::any>("backward_any_order");
        }
      }
    }
  }
}

}  // namespace trilith::bench
