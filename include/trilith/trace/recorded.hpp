// What a training step really did, as timelines: one for each pipeline of a trainer, so one for each
// tensor, context and data rank.
//
//     trainer.record(true);
//     trainer.step(batch);
//     file << trace::chrome_trace(trace::recorded(trainer), {.microseconds = 1e-3});
//
// Times are nanoseconds; 0 is when the first action of the pipeline began, and the makespan ends with its
// last. Each action is a block, fused ones too: a timeline shows whether they have overlapped. A message is
// sent when its exchange was posted, and has arrived when the receiver's wait for it returned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/recorder.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

using Events = std::deque<Event>;

namespace detail {

constexpr bool communicates(Activity activity) {
  switch (activity) {
    case Activity::load_batch:
    case Activity::action:
    case Activity::gradient_norm:
    case Activity::update: return false;
    case Activity::post:
    case Activity::wait:
    case Activity::reduce_tied:
    case Activity::reduce_gradients:
    case Activity::sum_loss: return true;
  }
  return false;
}

// The messages of an exchange: "send F3 to rank 1, receive B0 from rank 1", in ranks of the pipeline.
inline std::string describe(const Timeline& timeline, const schedule::Exchange& exchange) {
  std::string text;
  for (const schedule::Transfer& t : exchange.transfers) {
    const bool sends = t.kind == schedule::Transfer::Kind::send;
    const std::string what = t.pass == schedule::Pass::forward ? "output" : "gradient";
    text += (text.empty() ? "" : ", ") + std::string(sends ? "send " : "receive ") + what +
            " of microbatch " + std::to_string(t.microbatch) + chunk_letter(timeline, t.chunk) +
            (sends ? " to pipeline rank " : " from pipeline rank ") + std::to_string(t.peer);
  }
  return text;
}

}  // namespace detail

// Of one pipeline. `exchanges` and `events`: of each of its ranks, which have run `pipeline` once.
// `activation_bytes`: of a microbatch in flight in each stage, if known.
inline Timeline recorded(std::string name, schedule::Pipeline pipeline,
                         const std::vector<std::vector<schedule::Exchange>>& exchanges,
                         std::span<const Events* const> events,
                         std::span<const std::int64_t> activation_bytes = {}) {
  Time origin = std::numeric_limits<Time>::max();
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    std::size_t actions = 0;
    for (const Event& event : *events[rank]) {
      if (event.activity != Activity::action) continue;
      ++actions;
      origin = std::min(origin, event.begin);
    }
    require(actions == pipeline.programs[rank].size(),
            "pipeline rank " + std::to_string(rank) + " has recorded " + std::to_string(actions) +
                " of the " + std::to_string(pipeline.programs[rank].size()) + " actions of a step",
            "call record(true) before the step");
    for (schedule::Action& action : pipeline.programs[rank]) action.fused_with_next = false;
  }

  schedule::Simulation run{.busy = std::vector<Time>(pipeline.ranks)};
  std::vector<std::vector<Time>> posted(pipeline.ranks);                      // per rank and exchange
  detail::PerPass<Time> arrived(pipeline, std::numeric_limits<Time>::min());  // at the receiving stage
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    run.timeline.emplace_back(pipeline.programs[rank].size());
    posted[rank].resize(exchanges[rank].size());
    for (const Event& event : *events[rank]) {
      const Time end = event.end - origin;
      if (event.activity == Activity::action) {
        run.timeline[rank][event.index] = {event.begin - origin, end};
        run.busy[rank] += event.end - event.begin;
        run.makespan = std::max(run.makespan, end);
      } else if (event.activity == Activity::post) {
        posted[rank][event.index] = event.begin - origin;
      } else if (event.activity == Activity::wait) {
        for (const schedule::Transfer& t : exchanges[rank][event.index].transfers) {
          if (t.kind != schedule::Transfer::Kind::receive) continue;
          arrived.of(t.pass == schedule::Pass::forward, pipeline.stage(rank, t.chunk), t.microbatch) = end;
        }
      }
    }
  }

  const auto times = [&](int rank, int exchange, const schedule::Transfer& sent, Time /*made*/) {
    const bool forward = sent.pass == schedule::Pass::forward;
    const int reader = pipeline.stage(rank, sent.chunk) + (forward ? 1 : -1);
    return std::pair(posted[rank][exchange], arrived.of(forward, reader, sent.microbatch));
  };
  Timeline result = detail::timeline_of(std::move(name), pipeline, run, exchanges, activation_bytes, times);
  result.origin = origin;
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    for (const Event& event : *events[rank]) {
      if (event.activity == Activity::action) continue;
      const bool of_exchange = event.activity == Activity::post || event.activity == Activity::wait;
      result.lanes[rank].asides.push_back(
          {.what = name_of(event.activity),
           .of = of_exchange ? detail::describe(result, exchanges[rank][event.index]) : "",
           .communicates = detail::communicates(event.activity),
           .start = event.begin - origin,
           .end = event.end - origin});
    }
  }
  return result;
}

// Of the last step of a trainer that records, all of whose ranks are of this process.
template <class Trainer>
std::vector<Timeline> recorded(const Trainer& trainer) {
  const auto& plan = trainer.plan();
  const schedule::Pipeline& pipeline = plan.pipeline;
  std::vector<Timeline> result;
  for (int first = 0; first < plan.parallel.world(); ++first) {
    if (plan.parallel.coordinate_of(first).pipeline != 0) continue;
    const std::vector<int> ranks = plan.parallel.group(Axis::pipeline, first);
    std::vector<const Events*> events;
    std::vector<std::int64_t> activation_bytes(static_cast<std::size_t>(pipeline.stages()));
    for (int i = 0; i < pipeline.ranks; ++i) {
      const auto& rank = trainer.rank(ranks[i]);
      events.push_back(&rank.events());
      for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
        activation_bytes[pipeline.stage(i, chunk)] = static_cast<std::int64_t>(rank.activation_bytes(chunk));
      }
    }
    result.push_back(
        recorded(Trainer::SchedulePolicy::name, pipeline, plan.exchanges, events, activation_bytes));
    for (int i = 0; i < pipeline.ranks; ++i) {
      result.back().lanes[i].name =
          "rank " + std::to_string(ranks[i]) + " (" + to_string(plan.parallel.coordinate_of(ranks[i])) + ")";
    }
  }
  return result;
}

}  // namespace trilith::inline v0::trace
