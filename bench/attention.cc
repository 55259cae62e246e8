// Host attention beside oneDNN's matrix product: time, rate and share of dnnl_sgemm's rate. And what each
// rank of a causal ring computes, on one thread, one rank after the other: the slowest rank's processor time
// over the fastest one's.
//
// Before it times anything, it proves its results against float64. A rate counts the work that the mask
// leaves, 4 · batch · heads · queries · keys · dimension forward, half of it where causal, and 2.5 times that
// backward, over the fastest iteration; the rate of dnnl_sgemm (n = 2048) is measured right before, on as
// many threads.
//
//   attention [--threads=N] [--benchmark_filter=…]      N threads, all cores if left out
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <trilith/attention/hop_ranges.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/host/attention.hpp>
#include <trilith/ops/host/gemm.hpp>
#include <trilith/ops/host/transfer.hpp>

#include "test/support/attention_reference.hpp"

namespace trilith {
namespace {

// Float32 in huge pages, as the library's own buffers are.
class Buffer {
 public:
  Buffer(Host::Memory& memory, Index size, std::uint64_t stream)
      : allocation_(memory.allocate(static_cast<std::size_t>(size) * sizeof(float))) {
    const Philox philox(1, stream);
    for (Index i = 0; i < size; ++i) data()[i] = philox.uniform(static_cast<std::uint64_t>(i)) - 0.5f;
  }
  float* data() const { return reinterpret_cast<float*>(allocation_.data()); }

 private:
  Host::Allocation allocation_;
};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of this thread alone, whoever else is at work on the machine.
double processor_seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

// Of dnnl_sgemm, the best of five, in FLOP/s.
double matrix_product_rate(const Host::Stream& stream) {
  constexpr Index n = 2048;
  Host::Memory memory;
  const Buffer a(memory, n * n, 0);
  const Buffer b(memory, n * n, 1);
  const Buffer c(memory, n * n, 2);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    best = std::min(best, seconds([&] {
                      ops::gemm(stream, ops::Transpose::no, Matrix<const float>(a.data(), {n, n}),
                                ops::Transpose::no, Matrix<const float>(b.data(), {n, n}),
                                Matrix<float>(c.data(), {n, n}));
                    }));
  }
  return 2.0 * n * n * n / best;
}

struct Case {
  Index batch;
  Index sequence;
  Index dimension;
  bool causal;
  bool backward;
};

void run(benchmark::State& state, const Case& c, int threads) {
  constexpr Index heads = 12;
  const Index tokens = c.batch * c.sequence;
  const Index width = heads * c.dimension;
  Host::Memory memory;
  const Buffer qkv_buffer(memory, tokens * 3 * width, 0);
  const Buffer d_qkv_buffer(memory, tokens * 3 * width, 1);
  const Buffer out_buffer(memory, tokens * width, 2);
  const Buffer d_out_buffer(memory, tokens * width, 3);
  const Buffer lse_buffer(memory, tokens * heads, 4);
  const Buffer delta_buffer(memory, tokens * heads, 5);

  // Queries, keys and values are parts of one row, as a fused linear layer leaves them.
  const View<float, 4> qkv(qkv_buffer.data(), {c.batch, c.sequence, 3 * heads, c.dimension});
  const View<float, 4> d_qkv(d_qkv_buffer.data(), qkv.extents());
  const View<float, 4> out(out_buffer.data(), {c.batch, c.sequence, heads, c.dimension});
  const View<float, 4> d_out(d_out_buffer.data(), out.extents());
  const View<float, 3> lse(lse_buffer.data(), {c.batch, heads, c.sequence});
  const View<float, 3> delta(delta_buffer.data(), lse.extents());
  const auto part = [](View<float, 4> x, Index i) { return x.slice(2, i * heads, heads); };
  const ops::AttentionSettings settings{.scale = 1 / std::sqrt(static_cast<float>(c.dimension))};
  const test::AttentionShape shape{.batch = c.batch,
                                   .queries = c.sequence,
                                   .keys = c.sequence,
                                   .heads = heads,
                                   .kv_heads = heads,
                                   .dimension = c.dimension,
                                   .mask = c.causal ? test::causal : test::full};
  const test::OwnKeyRanges ranges(shape);

  const Host::Stream stream(threads);
  const double limit = matrix_product_rate(stream);
  double best = 1e9;
  for (auto _ : state) {
    const double time = seconds([&] {
      ops::attention(stream, part(qkv, 0), part(qkv, 1), part(qkv, 2), settings, ranges.view(), out, lse);
      if (c.backward) {
        ops::attention_delta(stream, out, d_out, delta);
        ops::attention_backward(stream, part(qkv, 0), part(qkv, 1), part(qkv, 2), lse, delta, d_out, settings,
                                ranges.view(), ops::Hop{}, View<float, 4>(), part(d_qkv, 0), part(d_qkv, 1),
                                part(d_qkv, 2));
      }
    });
    state.SetIterationTime(time);
    best = std::min(best, time);
  }
  const double work = 4.0 * static_cast<double>(c.batch * heads * c.sequence * c.sequence * c.dimension) *
                      (c.causal ? 0.5 : 1) * (c.backward ? 3.5 : 1);
  state.counters["GFLOP/s"] = work / best * 1e-9;
  state.counters["sgemm_GFLOP/s"] = limit * 1e-9;
  state.counters["share"] = work / best / limit;
}

// What the ranks of a ring compute in a forward pass, hop by hop, without what they send. The keys and values
// of all ranks are the same numbers, which changes no time.
template <class Split>
void run_ring(benchmark::State& state) {
  constexpr int ranks = 8;
  constexpr Index heads = 4, dimension = 64, sequence = 8192, rows = sequence / ranks;
  Host::Memory memory;
  const Host::Stream stream(1);
  const Buffer q(memory, rows * heads * dimension, 0), k(memory, rows * heads * dimension, 1);
  const Buffer v(memory, rows * heads * dimension, 2), out(memory, rows * heads * dimension, 3);
  const Buffer carried(memory, rows * heads * dimension, 4), per_query(memory, 3 * rows * heads, 5);
  const auto tensor = [&](const Buffer& b) { return View<float, 4>(b.data(), {1, rows, heads, dimension}); };
  const auto scalar = [&](Index i) {
    return View<float, 3>(per_query.data() + i * rows * heads, {1, heads, rows});
  };
  const ops::AttentionSettings settings{.scale = 1 / std::sqrt(float{dimension})};
  const ops::AttentionCarry carry{tensor(carried), scalar(0), scalar(1)};
  const SequenceSplit<Split> split(sequence, ranks);

  std::vector<double> best(ranks, 1e9);
  for (auto _ : state) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<LocalRows<Split>> blocks;
      for (int hop = 0; hop < ranks; ++hop) blocks.push_back(split.rows_of((rank - hop + ranks) % ranks));
      const HopRanges<Host> ranges(stream, memory, mask::causal().of(sequence, sequence), blocks);
      const double time = processor_seconds([&] {
        for (int hop = 0; hop < ranks; ++hop) {
          if (hop > 0 && hop < ranks - 1 && ranges.scores(hop) == 0) continue;
          ops::attention(stream, tensor(q), tensor(k), tensor(v), settings, ranges.of(hop),
                         {.first = hop == 0, .last = hop == ranks - 1}, carry, tensor(out), scalar(2));
        }
      });
      best[static_cast<std::size_t>(rank)] = std::min(best[static_cast<std::size_t>(rank)], time);
    }
  }
  const auto [fastest, slowest] = std::minmax_element(best.begin(), best.end());
  state.counters["fastest_ms"] = *fastest * 1e3;
  state.counters["slowest_ms"] = *slowest * 1e3;
  state.counters["slowest/fastest"] = *slowest / *fastest;
}

// The tolerance is that of the tests: sums of a few hundred products in float32.
bool proves_right(int threads) {
  bool right = true;
  for (const test::NamedMask& mask : {test::full, test::causal}) {
    for (const Index dimension : {64, 128}) {
      const test::AttentionInputs inputs({2, 150, 150, 2, 2, dimension, mask});
      const test::AttentionResults actual = test::attend(Host::Stream(threads), inputs);
      const test::ExpectedAttention expected(inputs);
      const double error =
          std::max({test::norm_error(actual.out, expected.out), test::norm_error(actual.lse, expected.lse),
                    test::norm_error(actual.dq, expected.dq), test::norm_error(actual.dk, expected.dk),
                    test::norm_error(actual.dv, expected.dv)});
      right = right && error <= 1e-5;
    }
  }
  return right;
}

void add(const Case& c, int threads) {
  const std::string name = std::string(c.backward ? "ForwardBackward" : "Forward") + "/" +
                           (c.causal ? "causal" : "full") + "/dimension:" + std::to_string(c.dimension) +
                           "/batch:" + std::to_string(c.batch) + "/sequence:" + std::to_string(c.sequence) +
                           "/threads:" + std::to_string(threads);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, c, threads); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void add_all(int threads) {
  benchmark::RegisterBenchmark("Ring/causal/ranks:8/zigzag", run_ring<Zigzag>)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("Ring/causal/ranks:8/striped", run_ring<Striped>)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("Ring/causal/ranks:8/contiguous", run_ring<Contiguous>)
      ->Unit(benchmark::kMillisecond);
  for (const bool backward : {false, true}) {
    for (const bool causal : {true, false}) {
      for (const Index dimension : {64, 128}) {
        for (const Index sequence : {64, 256}) add({4, sequence, dimension, causal, backward}, threads);
        for (const Index sequence : {256, 1024, 2048, 4096, 8192, 16384}) {
          add({1, sequence, dimension, causal, backward}, threads);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trilith

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  int threads = omp_get_num_procs();
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string option = "--threads=";
    if (argument.rfind(option, 0) == 0) threads = std::atoi(argument.c_str() + option.size());
    if (argument.rfind(option, 0) != 0 || threads < 1) {
      std::fprintf(stderr, "attention: cannot use %s: give --threads=N, N ≥ 1, or options of benchmark\n",
                   argv[i]);
      return 1;
    }
  }
  if (!trilith::proves_right(threads)) {
    std::fprintf(stderr, "attention: results differ from the float64 reference: nothing is timed\n");
    return 1;
  }
  trilith::add_all(threads);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
