// Prints the GPU and its driver in one line. Exit status 77: there is none.
#include <cstdio>
#include <string>

#include "bench/gpu/measurement.hpp"

int main() {
  std::string why;
  const trilith::bench::Machine machine = trilith::bench::find_machine(why);
  if (!why.empty()) {
    std::fprintf(stderr, "no GPU: %s\n", why.c_str());
    return 77;
  }
  std::printf("%s, driver %s\n", machine.card.c_str(), machine.driver.c_str());
  return 0;
}
