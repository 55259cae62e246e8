// Brings together what run.sh has run: prints a table of measurements, with their ratio to PyTorch's, and
// writes all of it as JSON.
//
//   summary --steps=FILE [--baseline=REPORT] --output=FILE REPORT…
//
// A line of the steps is: kind, name, outcome, seconds, separated by tabs. Reports that don't exist are left
// out, and benchmarks that did not pass are called not measured, in whole or in what their reports lack.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>

#include "bench/gpu/measurement.hpp"
#include "bench/gpu/report.hpp"

namespace trilith::bench {
namespace {

struct Step {
  std::string kind;
  std::string name;
  std::string outcome;
  double seconds = 0;
};

std::vector<Step> read_steps(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw Error("cannot read " + file, "give the file that run.sh wrote");
  std::vector<Step> steps;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    Step step;
    std::getline(fields, step.kind, '\t');
    std::getline(fields, step.name, '\t');
    std::getline(fields, step.outcome, '\t');
    fields >> step.seconds;
    if (!fields)
      throw Error("not a step: " + line, "give kind, name, outcome and seconds, separated by tabs");
    steps.push_back(step);
  }
  return steps;
}

int summarize(const std::string& steps_file, const std::string& baseline_file, const std::string& output,
              const std::vector<std::string>& reports) {
  std::map<std::string, double> baseline;
  if (std::filesystem::exists(baseline_file)) {
    for (const Measurement& m : read_report(baseline_file).measurements) {
      if (m.value) baseline[m.name] = *m.value;
    }
  }

  nlohmann::ordered_json json;
  nlohmann::ordered_json measurements = nlohmann::ordered_json::array();
  int status = 0;
  for (const std::string& file : reports) {
    if (!std::filesystem::exists(file)) continue;
    Report report;
    try {
      report = read_report(file);
    } catch (const Error& error) {  // of a benchmark that was ended while it wrote: the others count
      std::fprintf(stderr, "summary: %s\n", error.what());
      status = 1;
      continue;
    }
    json["machine"] = to_json(report.machine);
    for (const Measurement& m : report.measurements) {
      nlohmann::ordered_json entry = to_json(m);
      std::string line = line_of(m);
      const auto of = baseline.find(m.name);
      if (m.value && of != baseline.end()) {
        const double ratio = *m.value / of->second;
        entry["ratio_to_pytorch"] = ratio;
        char text[32];
        std::snprintf(text, sizeof text, ", %.2f × PyTorch", ratio);
        line += text;
      }
      std::puts(line.c_str());
      measurements.push_back(std::move(entry));
    }
  }

  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const Step& step : read_steps(steps_file)) {
    steps.push_back(
        {{"kind", step.kind}, {"name", step.name}, {"outcome", step.outcome}, {"seconds", step.seconds}});
    if (step.kind != "benchmark" || step.outcome == "passed") continue;
    const Measurement missing{.name = step.name + ", what is missing", .value = {}, .unit = ""};
    std::printf("%s: %s\n", line_of(missing).c_str(), step.outcome.c_str());
    measurements.push_back(to_json(missing));
  }
  json["steps"] = std::move(steps);
  json["measurements"] = std::move(measurements);
  write_json(json, output);
  return status;
}

}  // namespace
}  // namespace trilith::bench

int main(int argc, char** argv) {
  std::string steps;
  std::string baseline;
  std::string output;
  std::vector<std::string> reports;
  CLI::App app;
  app.add_option("--steps", steps, "what was run, and how it ended")->required();
  app.add_option("--baseline", baseline, "the report of PyTorch's measurements");
  app.add_option("--output", output, "the JSON file to write")->required();
  app.add_option("reports", reports, "the reports of benchmarks");
  CLI11_PARSE(app, argc, argv);
  try {
    return trilith::bench::summarize(steps, baseline, output, reports);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "summary: %s\n", error.what());
    return 1;
  }
}
