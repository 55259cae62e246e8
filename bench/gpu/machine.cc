// Prints the GPU and its driver in one line, and writes them to a file, if it is given one, as a report
// without measurements. Exit status 77: there is no GPU.
#include <cstdio>
#include <exception>
#include <string>

#include "bench/gpu/measurement.hpp"
#include "bench/gpu/report.hpp"

int main(int argc, char** argv) {
  using namespace trilith;
  std::string why;
  const bench::Machine machine = bench::find_machine(why);
  if (!why.empty()) {
    std::fprintf(stderr, "no GPU: %s\n", why.c_str());
    return 77;
  }
  std::printf("%s, driver %s\n", machine.card.c_str(), machine.driver.c_str());
  try {
    if (argc > 1) bench::write_json(to_json(bench::Report{machine, {}}), argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "machine: %s\n", error.what());
    return 1;
  }
}
