// The frame of a benchmark on a GPU:
//
//   NAME [--small] [--output=FILE]
//
// It proves its results, times what it has proved, and prints a line for each measurement as soon as it is
// made; FILE has all of them, as JSON. With --small it proves results at small sizes, which memory
// and race checkers get through, and times nothing. Exit status 77: there is no GPU, which one line says;
// 1: a result is wrong, or another error.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/gpu/measurement.hpp"
#include "bench/gpu/report.hpp"

namespace trilith::bench {

// body(small, results)
template <class Body>
int run_benchmark(const char* name, int argc, char** argv, Body&& body) {
  bool small = false;
  std::string output;
  CLI::App app;
  app.add_flag("--small", small, "prove results at small sizes and time nothing");
  app.add_option("--output", output, "write the measurements to this file, as JSON");
  CLI11_PARSE(app, argc, argv);

  std::string why;
  const Machine machine = find_machine(why);
  if (!why.empty()) {
    std::fprintf(stderr, "%s: no GPU: %s\n", name, why.c_str());
    return 77;
  }
  try {
    Results results([&](const std::vector<Measurement>& all) {
      if (!output.empty()) write_json(to_json(Report{machine, all}), output);
    });
    body(small, results);
    if (small) std::printf("%s: results are right\n", name);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace trilith::bench
