// A strict reading of a Chrome trace: what the format asks for, and what viewers need to show all of it.
// The format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace trilith::test {

struct TraceReading {
  std::vector<std::string> problems = {};
  std::map<int, std::string> processes = {};  // names, by id
  std::size_t actions = 0;                    // of the programs
  std::size_t flows = 0;
  std::map<std::string, std::size_t> slices = {};  // how many of each name that is no action
};

// Throws where the text is no JSON of a trace.
inline TraceReading read_strictly(const std::string& text) {
  using Track = std::pair<int, int>;  // process, thread
  struct Slice {
    double start, end;
    std::string name;
  };
  TraceReading reading;
  std::map<Track, std::vector<Slice>> slices;
  std::map<Track, std::string> threads;
  std::map<int, std::vector<nlohmann::json>> flows;
  std::map<std::pair<int, std::string>, std::pair<double, double>> counters;  // when last, how much
  const auto problem = [&](const std::string& what) { reading.problems.push_back(what); };

  const nlohmann::json trace = nlohmann::json::parse(text);
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const std::string name = event.at("name");
    const int process = event.at("pid");
    if (phase == "M") {
      if (name == "process_name" && !reading.processes.emplace(process, event["args"].at("name")).second) {
        problem("process " + std::to_string(process) + " has two names");
      }
      if (name == "thread_name") threads[{process, event.at("tid")}] = event["args"].at("name");
      continue;
    }
    const double time = event.at("ts");
    if (!(time >= 0)) problem(name + " is at " + std::to_string(time));
    if (phase == "X") {
      const double duration = event.at("dur");
      if (!(duration >= 0)) problem(name + " lasts " + std::to_string(duration));
      slices[{process, event.at("tid")}].push_back({time, time + duration, name});
      if (event.at("args").contains("actions")) {
        reading.actions += event["args"]["actions"].size();
      } else {
        ++reading.slices[name.substr(0, name.find_first_of("0123456789"))];
      }
    } else if (phase == "s" || phase == "f") {
      flows[event.at("id")].push_back(event);
    } else if (phase == "C") {
      const auto [found, is_new] = counters.try_emplace({process, name}, time, 0.0);
      if (found->second.first > time) problem("counter " + name + " goes back in time");
      found->second = {time, event.at("args").begin()->get<double>()};
    } else {
      problem("an event of phase " + phase);
    }
  }

  // Times are microseconds in double, whose sums are exact to far less than a nanosecond.
  constexpr double exact = 1e-5;
  for (auto& [track, row] : slices) {
    if (!reading.processes.contains(track.first)) problem("a process without a name");
    if (!threads.contains(track)) problem("a thread without a name");
    std::sort(row.begin(), row.end(), [](const Slice& a, const Slice& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < row.size(); ++i) {
      if (row[i - 1].end > row[i].start + exact) {
        problem(row[i - 1].name + " and " + row[i].name + " overlap on " + threads[track]);
      }
    }
  }
  const auto within_a_slice = [&](const nlohmann::json& end) {
    const double time = end["ts"];
    const std::vector<Slice>& row = slices[{end["pid"], end["tid"]}];
    return std::any_of(row.begin(), row.end(),
                       [&](const Slice& slice) { return slice.start <= time && time < slice.end; });
  };
  for (const auto& [id, ends] : flows) {
    const std::string arrow = "arrow " + std::to_string(id);
    if (ends.size() != 2 || ends[0]["ph"] != "s" || ends[1]["ph"] != "f") {
      problem(arrow + " has not one start and one end");
      continue;
    }
    if (ends[0]["ts"] > ends[1]["ts"]) problem(arrow + " goes back in time");
    if (ends[0]["pid"] == ends[1]["pid"]) problem(arrow + " stays on its rank");
    if (!within_a_slice(ends[0]) || !within_a_slice(ends[1])) problem(arrow + " hangs in the air");
  }
  for (const auto& [counter, last] : counters) {
    if (last.second != 0) problem("counter " + counter.second + " does not end at 0");
  }
  std::set<int> ids;
  for (const auto& [process, name] : reading.processes) ids.insert(process);
  for (const auto& [track, name] : threads) {
    if (!ids.insert(track.second).second) problem("thread " + name + " shares its id");
  }
  reading.flows = flows.size();
  return reading;
}

}  // namespace trilith::test
