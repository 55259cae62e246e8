#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <trilith/trace/chrome.hpp>
#include <trilith/trace/notation.hpp>

#include "test/trace/strict_reading.hpp"
#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

using nlohmann::json;

json events(const trace::Timeline& timeline, const trace::ChromeOptions& options = {}) {
  return json::parse(trace::chrome_trace(timeline, options))["traceEvents"];
}

using Track = std::pair<int, int>;  // process, thread

Track track_of(const json& event) {
  return {event["pid"], event["tid"]};
}

TEST(ChromeTrace, StandsAStrictReading) {
  for (const test::Drawn& d : test::all_drawn()) {
    const test::TraceReading reading = test::read_strictly(trace::chrome_trace(d.timeline));
    EXPECT_TRUE(reading.problems.empty()) << reading.problems.front() << ": " << trace::title(d.timeline);
    EXPECT_EQ(reading.actions, test::actions(d));
    EXPECT_EQ(reading.flows, d.timeline.messages.size());
  }
}

TEST(ChromeTrace, NamesAProcessForEachRankAndEachTrackThatIsUsed) {
  for (const test::Drawn& d : test::all_drawn()) {
    std::map<int, std::string> processes;
    std::map<Track, std::string> tracks;
    const json all = events(d.timeline);
    for (const json& event : all) {
      if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
      if (event["name"] == "thread_name") tracks[track_of(event)] = event["args"]["name"];
    }
    EXPECT_EQ(static_cast<int>(processes.size()), d.timeline.ranks());
    EXPECT_EQ(processes[1], "rank 0");
    std::set<int> ids;
    for (const auto& [process, name] : processes) EXPECT_TRUE(ids.insert(process).second);
    for (const auto& [track, name] : tracks) EXPECT_TRUE(ids.insert(track.second).second) << name;
    for (const json& event : all) {
      if (event["ph"] != "X") continue;
      ASSERT_TRUE(tracks.contains(track_of(event)));
      EXPECT_EQ(tracks[track_of(event)] == "compute", event["cat"] == "compute");
    }
  }
}

TEST(ChromeTrace, HasEveryActionOnce) {
  for (const test::Drawn& d : test::all_drawn()) {
    std::size_t actions = 0;
    for (const json& event : events(d.timeline)) {
      if (event["ph"] == "X" && event["cat"] == "compute") actions += event["args"]["actions"].size();
    }
    EXPECT_EQ(actions, test::actions(d)) << trace::title(d.timeline);
  }
}

TEST(ChromeTrace, SlicesOfATrackDoNotOverlap) {
  for (const test::Drawn& d : test::all_drawn()) {
    std::map<Track, std::vector<std::pair<double, double>>> slices;
    for (const json& event : events(d.timeline)) {
      if (event["ph"] != "X") continue;
      const double start = event["ts"];
      EXPECT_GT(event["dur"], 0);
      slices[track_of(event)].emplace_back(start, start + event["dur"].get<double>());
    }
    for (auto& [track, spans] : slices) {
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 1; i < spans.size(); ++i) {
        EXPECT_LE(spans[i - 1].second, spans[i].first + 1e-6) << trace::title(d.timeline);
      }
    }
  }
}

// Each arrow leaves from within a send on one rank and ends within a receive on another.
TEST(ChromeTrace, ArrowsGoFromEachSendToItsReceive) {
  for (const test::Drawn& d : test::all_drawn()) {
    const json all = events(d.timeline);
    std::map<int, json> starts, ends;
    for (const json& event : all) {
      if (event["ph"] == "s") {
        EXPECT_TRUE(starts.emplace(event["id"], event).second);
      }
      if (event["ph"] == "f") {
        EXPECT_TRUE(ends.emplace(event["id"], event).second);
      }
    }
    EXPECT_EQ(starts.size(), d.timeline.messages.size());
    EXPECT_EQ(ends.size(), starts.size());

    std::map<Track, std::map<double, json>> slices;  // by start
    for (const json& event : all) {
      if (event["ph"] == "X" && event["cat"] == "communication") slices[track_of(event)][event["ts"]] = event;
    }
    const auto around = [&](const json& arrow) {
      const auto& row = slices[track_of(arrow)];
      const json& slice = std::prev(row.upper_bound(arrow["ts"].get<double>()))->second;
      EXPECT_LT(arrow["ts"].get<double>(), slice["ts"].get<double>() + slice["dur"].get<double>());
      return slice["name"].get<std::string>();
    };
    for (const auto& [id, start] : starts) {
      ASSERT_TRUE(ends.contains(id));
      const json& end = ends[id];
      EXPECT_LE(start["ts"].get<double>(), end["ts"].get<double>());
      EXPECT_NE(start["pid"], end["pid"]);
      const std::string sent = around(start);
      const std::string received = around(end);
      ASSERT_EQ(sent.substr(0, 5), "send ");
      EXPECT_EQ(received, "receive " + sent.substr(5));
    }
  }
}

TEST(ChromeTrace, CountersPeakAsSimulatedAndEndAtZero) {
  for (const test::Drawn& d : test::all_drawn()) {
    std::map<int, int> last, peak;
    std::map<int, double> bytes;
    for (const json& event : events(d.timeline)) {
      if (event["ph"] != "C") continue;
      const int rank = event["pid"].get<int>() - 1;
      if (event["name"] == "in flight") {
        last[rank] = event["args"]["microbatches"];
        peak[rank] = std::max(peak[rank], last[rank]);
      } else {
        EXPECT_EQ(event["name"], "activations");
        bytes[rank] = std::max(bytes[rank], event["args"]["bytes"].get<double>());
      }
    }
    for (int rank = 0; rank < d.timeline.ranks(); ++rank) {
      EXPECT_EQ(last[rank], 0);
      EXPECT_EQ(peak[rank], d.simulation.peak_in_flight[rank]);
      EXPECT_EQ(bytes[rank], static_cast<double>(test::activation_bytes) * d.simulation.peak_in_flight[rank]);
    }
  }
}

TEST(ChromeTrace, OfSeveralTimelinesIsOnOneClockFromTheEarliestOn) {
  std::vector<trace::Timeline> timelines(2, test::drawn<OneFOneB>(2, 2).timeline);
  timelines[0].origin = 1'000'100;
  timelines[1].origin = 1'000'000;
  timelines[1].lanes[0].asides.push_back({.what = "before", .start = -7, .end = -3});
  const std::string text = trace::chrome_trace(timelines, {.microseconds = 0.5});
  EXPECT_TRUE(test::read_strictly(text).problems.empty());
  std::map<int, double> first;  // slice of each process
  const json trace = json::parse(text);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "compute") first.emplace(event["pid"], event["ts"]);
  }
  EXPECT_EQ(first[1], 0.5 * (100 + 7));
  EXPECT_EQ(first[2], 0.5 * (100 + 7 + 1));
  EXPECT_EQ(first[3], 0.5 * 7);  // its first action; what was before comes after in the file
  EXPECT_EQ(first[4], 0.5 * (7 + 1));
}

TEST(ChromeTrace, IsInTheGivenUnit) {
  const trace::Timeline t = test::drawn<OneFOneB>(2, 2).timeline;
  double end = 0;
  for (const json& event : events(t, {.microseconds = 0.5})) {
    if (event["ph"] == "X" && event["cat"] == "compute") {
      end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
    }
  }
  EXPECT_DOUBLE_EQ(end, 0.5 * static_cast<double>(t.makespan));
}

}  // namespace
}  // namespace trilith
