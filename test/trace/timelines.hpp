// Timelines of every kind of schedule, for tests of what draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::test {

struct Drawn {
  schedule::Pipeline pipeline;
  schedule::Simulation simulation;
  trace::Timeline timeline;
};

// Of a microbatch in flight, of each stage.
inline constexpr std::int64_t activation_bytes = 1'000'000;

template <class Policy>
Drawn drawn(int ranks, int microbatches, const schedule::Cost& cost = {}, std::string name = Policy::name) {
  Drawn result{
      .pipeline = schedule::make_pipeline<Policy>(ranks, microbatches), .simulation = {}, .timeline = {}};
  const std::vector<schedule::Cost> costs(result.pipeline.stages(), cost);
  result.simulation = schedule::simulate(result.pipeline, costs);
  result.timeline = trace::make_timeline(name, result.pipeline, result.simulation, costs,
                                         std::vector(costs.size(), activation_bytes));
  return result;
}

// All policies, with messages that take no time, less than a pass, and more.
inline std::vector<Drawn> all_drawn() {
  std::vector<Drawn> all;
  for (const schedule::Cost cost :
       {schedule::Cost{}, schedule::Cost{3, 4, 2, 1}, schedule::Cost{.forward = 2, .message = 5}}) {
    all.push_back(drawn<GPipe>(4, 8, cost));
    all.push_back(drawn<OneFOneB>(4, 8, cost));
    all.push_back(drawn<OneFOneB>(1, 3, cost));
    all.push_back(drawn<OneFOneB>(5, 2, cost));
    all.push_back(drawn<Interleaved<2>>(4, 8, cost));
    all.push_back(drawn<Interleaved<3>>(2, 4, cost));
    all.push_back(drawn<ZeroBubbleH1>(4, 8, cost));
    all.push_back(drawn<ZeroBubbleH2>(4, 8, cost));
    all.push_back(drawn<ZeroBubbleV>(4, 8, cost));
    all.push_back(drawn<DualPipeV>(4, 8, cost));
  }
  return all;
}

inline std::size_t actions(const Drawn& drawn) {
  std::size_t count = 0;
  for (const schedule::Program& program : drawn.pipeline.programs) count += program.size();
  return count;
}

inline std::size_t blocks(const trace::Timeline& timeline) {
  std::size_t count = 0;
  for (const trace::Lane& lane : timeline.lanes) count += lane.blocks.size();
  return count;
}

// How often `part` stands in `text`.
inline std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

}  // namespace trilith::test
