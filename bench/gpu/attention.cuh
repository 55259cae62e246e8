// Attention on a GPU: the tensors and passes of a shape, and what is proved and timed of them.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/algorithms.cuh>
#include <trilith/ops/cuda/attention.hpp>
#include <trilith/ops/cuda/attention_backward.hpp>
#include <trilith/ops/cuda/transfer.cuh>

#include "bench/gpu/attention_rows.hpp"
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
  Index group = 1;  // heads of queries to one of keys and values

  Index rows() const { return batch * sequence; }
  Index elements() const { return rows() * heads * dimension; }
  Index kv_elements() const { return elements() / group; }
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
        k_(Array<T>::random(gpu, shape.kv_elements(), 2)),
        v_(Array<T>::random(gpu, shape.kv_elements(), 3)),
        d_out_(Array<T>::random(gpu, shape.elements(), 4)),
        out_(gpu, shape.elements()),
        dq_(gpu, shape.elements()),
        dk_(gpu, shape.kv_elements()),
        dv_(gpu, shape.kv_elements()),
        out_carry_(gpu, shape.elements()),
        dq_carry_(gpu, shape.elements()),
        maximum_(gpu, shape.rows() * shape.heads),
        sum_(gpu, shape.rows() * shape.heads),
        lse_(gpu, shape.rows() * shape.heads),
        delta_(gpu, shape.rows() * shape.heads),
        first_(gpu, shape.sequence),
        last_(gpu, 3 * shape.sequence),
        room_(gpu, ops::attention_backward_room(shape.sequence)) {
    std::vector<std::int32_t> range(static_cast<std::size_t>(3 * shape.sequence), 0);
    ops::upload(gpu.stream, range.data(), vector(first_));
    const Index half = shape.sequence / 2;
    for (Index i = 0; i < shape.sequence; ++i) {
      range[i] = static_cast<std::int32_t>(seen(i));
      range[shape.sequence + i] = static_cast<std::int32_t>(std::min(seen(i), half));
      range[2 * shape.sequence + i] = static_cast<std::int32_t>(std::max(seen(i) - half, Index{0}));
    }
    ops::upload(gpu.stream, range.data(), vector(last_));
    const std::vector<std::int32_t> zeros(static_cast<std::size_t>(shape.sequence), 0);
    for (std::size_t part = 0; part < rectangles_.size(); ++part) {
      rectangles_[part] =
          ops::seen_rectangle({zeros.data(), {shape.sequence}},
                              {range.data() + static_cast<Index>(part) * shape.sequence, {shape.sequence}});
    }
  }

  // Over the keys in one hop or in two, as on two context ranks.
  void forward(int hops = 1) const {
    for (int hop = 0; hop < hops; ++hop) {
      ops::attention(gpu_.stream, heads(q_), keys(k_, hop, hops), keys(v_, hop, hops), settings(),
                     ranges(hop, hops), {.first = hop == 0, .last = hop == hops - 1},
                     {heads(out_carry_), per_query(maximum_), per_query(sum_)}, heads(out_), per_query(lse_));
    }
  }

  template <ops::DqOrder order>
  void backward(int hops = 1) const {
    ops::attention_delta(gpu_.stream, heads(out_), heads(d_out_), per_query(delta_));
    for (int hop = 0; hop < hops; ++hop) {
      ops::attention_backward<order>(gpu_.stream, heads(q_), keys(k_, hop, hops), keys(v_, hop, hops),
                                     per_query(lse_), per_query(delta_), heads(d_out_), settings(),
                                     ranges(hop, hops), {.first = hop == 0, .last = hop == hops - 1},
                                     heads(dq_carry_), heads(dq_), keys(dk_, hop, hops), keys(dv_, hop, hops),
                                     vector(room_));
    }
  }

  // What no backward pass has written since is NaN.
  void forget_gradients() const {
    for (const Array<T>* x : {&dq_, &dk_, &dv_}) {
      gpu::check(cudaMemsetAsync(x->data(), 0xFF, static_cast<std::size_t>(x->size()) * sizeof(T),
                                 gpu_.stream.get()),
                 "cudaMemsetAsync");
    }
  }

  // Of both passes, which have run, in some rows of the first and the last head of keys.
  AttentionErrors errors() const {
    const AttentionRows rows(shape_.sequence, shape_.dimension, shape_.causal, settings().scale);
    AttentionErrors worst;
    for (const Index kv_head : {Index{0}, shape_.batch * shape_.heads / shape_.group - 1}) {
      const KeyHead keys{of_head(k_, kv_head), of_head(v_, kv_head), of_head(dk_, kv_head),
                         of_head(dv_, kv_head)};
      std::vector<QueryHead> group;
      for (Index head = kv_head * shape_.group; head < (kv_head + 1) * shape_.group; ++head) {
        group.push_back(
            {of_head(q_, head), of_head(d_out_, head), of_head(out_, head), of_head(dq_, head),
             rows_on_host(gpu_, lse_.data() + head * shape_.sequence, 1, shape_.sequence, shape_.sequence)});
      }
      for (const Index row : {Index{63}, Index{64}, shape_.sequence / 2, shape_.sequence - 1}) {
        rows.add_query(group.back(), keys, row, worst);
        rows.add_key(group, keys, row, worst);
      }
    }
    return worst;
  }

 private:
  Index seen(Index query) const { return shape_.causal ? query + 1 : shape_.sequence; }
  ops::AttentionSettings settings() const {
    return {.scale = 1 / std::sqrt(static_cast<float>(shape_.dimension))};
  }
  ops::KeyRanges ranges(int hop, int hops) const {
    const Index part = hops == 1 ? 0 : 1 + hop;
    return {vector(first_), vector(last_).slice(0, part * shape_.sequence, shape_.sequence),
            rectangles_[static_cast<std::size_t>(part)]};
  }

  template <class E>
  static Vector<E> vector(const Array<E>& x) {
    return {x.data(), {x.size()}};
  }
  template <class E>
  View<E, 4> heads(const Array<E>& x) const {
    const Index count = x.size() / (shape_.rows() * shape_.dimension);
    return {x.data(), {shape_.batch, shape_.sequence, count, shape_.dimension}};
  }
  View<T, 4> keys(const Array<T>& x, int hop, int hops) const {
    const Index rows = shape_.sequence / hops;
    return heads(x).slice(1, hop * rows, rows);
  }
  View<float, 3> per_query(const Array<float>& x) const {
    return {x.data(), {shape_.batch, shape_.heads, shape_.sequence}};
  }

  std::vector<float> of_head(const Array<T>& x, Index head) const {
    const View<T, 4> all = heads(x);
    return rows_on_host(gpu_, &all(head / all.extent(2), 0, head % all.extent(2), 0), shape_.sequence,
                        shape_.dimension, all.stride(1));
  }

  Gpu& gpu_;
  AttentionShape shape_;
  Array<T> q_, k_, v_, d_out_, out_, dq_, dk_, dv_;
  Array<float> out_carry_, dq_carry_, maximum_, sum_, lse_, delta_;
  Array<std::int32_t> first_, last_, room_;
  std::array<std::optional<ops::SeenRectangle>, 3> rectangles_;  // of `last_`'s parts
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
void prove_passes(const AttentionRun<T>& run, const std::string& name, int hops = 1) {
  constexpr double u = std::is_same_v<T, BFloat16> ? 0x1p-8 : 0x1p-11;
  const auto prove_backward = [&]<ops::DqOrder order>() {
    run.forget_gradients();
    run.template backward<order>(hops);
    const auto errors = run.errors();
    prove(name + ", forward", errors.out, 2 * u);
    prove(name + ", backward", errors.gradients, 4 * u);
  };
  run.forward(hops);
  prove_backward.template operator()<ops::DqOrder::ascending>();
  if constexpr (AttentionRun<T>::sums_in_any_order) {
    prove_backward.template operator()<ops::DqOrder::any>();
  }
}

// Tiles that are not full, grouped queries, and one hop or two.
template <half T>
void prove_small_attention(T element) {
  Gpu gpu;
  for (const bool causal : {true, false}) {
    for (const Index dimension : {64, 128, 256}) {
      for (const int hops : {1, 2}) {
        const AttentionRun<T> run(
            gpu,
            {.batch = 2, .sequence = 200, .heads = 4, .dimension = dimension, .causal = causal, .group = 2});
        prove_passes(run, "attention/" + name_of(element) + "/" + std::to_string(dimension), hops);
      }
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
        const AttentionShape shape{.batch = tokens / sequence,
                                   .sequence = sequence,
                                   .heads = columns / dimension,
                                   .dimension = dimension,
                                   .causal = causal};
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
