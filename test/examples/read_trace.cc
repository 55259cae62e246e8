// Reads a Chrome trace strictly and prints what it holds; its problems and status 1 where it has any.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "test/trace/strict_reading.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "read_trace FILE\n");
    return EXIT_FAILURE;
  }
  try {
    std::ifstream file(argv[1]);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const trilith::test::TraceReading reading = trilith::test::read_strictly(text);
    for (const auto& [id, name] : reading.processes) std::printf("process %s\n", name.c_str());
    std::printf("actions %zu\nflows %zu\n", reading.actions, reading.flows);
    for (const auto& [name, count] : reading.slices) std::printf("%s %zu\n", name.c_str(), count);
    for (const std::string& problem : reading.problems) std::printf("problem: %s\n", problem.c_str());
    return reading.problems.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "read_trace: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
