#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/error.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

using schedule::Pass;

TEST(Timeline, HasEveryActionOnceInTheOrderOfItsProgram) {
  for (const test::Drawn& d : test::all_drawn()) {
    ASSERT_EQ(d.timeline.ranks(), d.pipeline.ranks);
    for (int rank = 0; rank < d.pipeline.ranks; ++rank) {
      schedule::Program found;
      for (const trace::Block& block : d.timeline.lanes[rank].blocks) {
        found.insert(found.end(), block.actions.begin(), block.actions.end());
      }
      EXPECT_EQ(found, d.pipeline.programs[rank]) << trace::title(d.timeline) << ", rank " << rank;
    }
  }
}

TEST(Timeline, BlocksOfARankDoNotOverlapAndFillItsBusyTime) {
  for (const test::Drawn& d : test::all_drawn()) {
    for (int rank = 0; rank < d.timeline.ranks(); ++rank) {
      const trace::Lane& lane = d.timeline.lanes[rank];
      trace::Time free = 0;
      trace::Time busy = 0;
      for (const trace::Block& block : lane.blocks) {
        EXPECT_EQ(block.waited, block.start - free);
        EXPECT_GE(block.waited, 0);
        EXPECT_GT(block.end, block.start);
        busy += block.end - block.start;
        free = block.end;
      }
      EXPECT_LE(free, d.timeline.makespan);
      EXPECT_EQ(busy, d.simulation.busy[rank]);
      EXPECT_EQ(busy, lane.busy);
    }
  }
}

TEST(Timeline, FusedActionsAreOneBlock) {
  const test::Drawn d = test::drawn<DualPipeV>(4, 8);
  EXPECT_LT(test::blocks(d.timeline), test::actions(d));
  for (const trace::Lane& lane : d.timeline.lanes) {
    for (const trace::Block& block : lane.blocks) {
      for (std::size_t i = 0; i < block.actions.size(); ++i) {
        EXPECT_EQ(block.actions[i].fused_with_next, i + 1 < block.actions.size());
      }
    }
  }
}

TEST(Timeline, InFlightStartsAndEndsAtZeroAndPeaksAsSimulated) {
  for (const test::Drawn& d : test::all_drawn()) {
    for (int rank = 0; rank < d.timeline.ranks(); ++rank) {
      const trace::Lane& lane = d.timeline.lanes[rank];
      ASSERT_FALSE(lane.in_flight.empty());
      EXPECT_EQ(lane.in_flight.front().time, 0);
      EXPECT_EQ(lane.in_flight.back().amount, 0);
      EXPECT_EQ(lane.in_flight.back().time, lane.blocks.back().end);
      EXPECT_TRUE(
          std::is_sorted(lane.in_flight.begin(), lane.in_flight.end(),
                         [](const trace::Level& a, const trace::Level& b) { return a.time < b.time; }));
      EXPECT_EQ(lane.peak, d.simulation.peak_in_flight[rank]);
    }
  }
}

// One for each microbatch, direction and boundary between stages of two ranks.
TEST(Timeline, HasEveryMessageOnceBetweenNeighbouringStages) {
  for (const test::Drawn& d : test::all_drawn()) {
    const trace::Timeline& t = d.timeline;
    std::size_t boundaries = 0;
    for (int stage = 0; stage + 1 < d.pipeline.stages(); ++stage) {
      boundaries += d.pipeline.place_of(stage).first != d.pipeline.place_of(stage + 1).first;
    }
    std::set<std::tuple<int, int, int>> seen;  // stage it leaves, direction, microbatch
    for (const trace::Message& message : t.messages) {
      const bool forward = message.pass == Pass::forward;
      const int stage = t.stage(message.from, message.from_chunk);
      EXPECT_TRUE(seen.emplace(stage, forward ? 1 : -1, message.microbatch).second);
      EXPECT_NE(message.from, message.to);
      EXPECT_EQ(t.lanes[message.from].blocks[message.from_block].end, message.sent);
      const trace::Block& reader = t.lanes[message.to].blocks[message.to_block];
      EXPECT_LE(message.arrived, reader.start);
      ASSERT_GE(reader.last_input, 0);
      EXPECT_LE(message.arrived, t.messages[reader.last_input].arrived);
      EXPECT_TRUE(std::any_of(reader.actions.begin(), reader.actions.end(), [&](const schedule::Action& a) {
        return a.microbatch == message.microbatch && (a.pass == Pass::forward) == forward &&
               t.stage(message.to, a.chunk) == stage + (forward ? 1 : -1);
      }));
    }
    EXPECT_EQ(seen.size(), 2 * boundaries * static_cast<std::size_t>(t.microbatches)) << trace::title(t);
  }
}

// In a simulation a rank is idle only for want of a message.
TEST(Timeline, WhoWaitsStartsWhenItsLastInputArrives) {
  for (const test::Drawn& d : test::all_drawn()) {
    for (const trace::Lane& lane : d.timeline.lanes) {
      for (const trace::Block& block : lane.blocks) {
        if (block.waited == 0) continue;
        ASSERT_GE(block.last_input, 0);
        EXPECT_EQ(d.timeline.messages[block.last_input].arrived, block.start);
      }
    }
  }
}

TEST(Timeline, IsDescribedInWords) {
  const trace::Timeline t = test::drawn<OneFOneB>(4, 8, {.message = 2}).timeline;
  EXPECT_EQ(trace::describe(t, 0, t.lanes[0].blocks[0]),
            "F0: forward of microbatch 0, stage 0\nstart 0, end 1\nneeds nothing from another rank");
  EXPECT_EQ(trace::describe(t, 1, t.lanes[1].blocks[0]),
            "F0: forward of microbatch 0, stage 1\nstart 3, end 4\nwaited 3 for F0 of rank 0");
  EXPECT_EQ(
      trace::describe(t, 1, t.lanes[1].blocks[1]),
      "F1: forward of microbatch 1, stage 1\nstart 4, end 5\ndid not wait: F1 of rank 0 was there at 4");
}

TEST(Timeline, RefusesRanksThatWaitForEver) {
  schedule::Pipeline pipeline = schedule::make_pipeline<OneFOneB>(2, 2);
  std::swap(pipeline.programs[0][0], pipeline.programs[0].back());
  try {
    trace::make_timeline("broken", pipeline, schedule::simulate(pipeline));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("wait for each other for ever"), std::string::npos)
        << error.what();
  }
}

// Contrast as the web's guidelines define it (WCAG 2), which ask for 4.5 between text and what it stands on.
double luminance(const std::string& colour) {
  double sum = 0;
  for (const auto& [at, weight] : {std::pair{1, 0.2126}, {3, 0.7152}, {5, 0.0722}}) {
    const double c = std::stoi(colour.substr(static_cast<std::size_t>(at), 2), nullptr, 16) / 255.0;
    sum += weight * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(double a, double b) {
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

TEST(Paint, IsReadableInGrey) {
  std::vector<double> grey;
  for (const Pass pass : trace::passes) {
    const trace::Paint p = trace::paint(pass);
    grey.push_back(luminance(p.fill));
    EXPECT_GE(contrast(luminance(p.fill), luminance(p.ink)), 4.5) << p.words;
  }
  std::sort(grey.begin(), grey.end());
  // Enough to tell neighbours apart; the palest need only differ from idle, which has no label.
  for (std::size_t i = 1; i < grey.size(); ++i) EXPECT_GE(contrast(grey[i - 1], grey[i]), 1.35);
  EXPECT_GE(contrast(grey.back(), luminance("#ffffff")), 1.15);
}

}  // namespace
}  // namespace trilith
