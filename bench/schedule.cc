// How long schedules take to make, to prove and to simulate.
//
//     ./bazelw run //bench:schedule
//
// Each policy first proves its laws at p = 8, m = 32. Then: one rank's program at p = 1024, m = 8192; all
// programs, exchanges and laws at p = 16, m = 64; the simulation of p = 64, m = 512.

#include <cstdio>
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/laws.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>

using namespace trilith;

namespace {

template <class Policy>
void program_of_one_rank(benchmark::State& state) {
  constexpr int ranks = 1024;
  for (auto _ : state) benchmark::DoNotOptimize(schedule::program<Policy>(ranks / 2, ranks, 8192));
}

template <class Policy>
void proof(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(schedule::verify(schedule::make_pipeline<Policy>(16, 64)));
  }
}

template <class Policy>
void simulation(benchmark::State& state) {
  const schedule::Pipeline pipeline = schedule::make_pipeline<Policy>(64, 512);
  for (auto _ : state) benchmark::DoNotOptimize(schedule::simulate(pipeline));
}

template <class Policy>
void add(const std::string& name) {
  schedule::require_lawful(schedule::make_pipeline<Policy>(8, 32), name);
  benchmark::RegisterBenchmark((name + "/program p=1024 m=8192, one rank").c_str(),
                               program_of_one_rank<Policy>)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((name + "/proof p=16 m=64").c_str(), proof<Policy>)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((name + "/simulation p=64 m=512").c_str(), simulation<Policy>)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    add<GPipe>("GPipe");
    add<OneFOneB>("OneFOneB");
    add<Interleaved<2>>("Interleaved<2>");
    add<ZeroBubbleH1>("ZeroBubbleH1");
    add<ZeroBubbleH2>("ZeroBubbleH2");
    add<ZeroBubbleV>("ZeroBubbleV");
    add<DualPipeV>("DualPipeV");
  } catch (const Error& error) {
    std::fprintf(stderr, "schedule: %s\n", error.what());
    return EXIT_FAILURE;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
