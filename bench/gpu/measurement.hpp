// What a benchmark on a GPU measures.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>

namespace trilith::bench {

struct Machine {
  std::string card;
  std::string driver;  // its version
  std::string date;    // UTC

  friend bool operator==(const Machine&, const Machine&) = default;
};

// The GPU that benchmarks run on. `why` says what is wrong where there is none, and is empty where there is.
Machine find_machine(std::string& why);

struct Measurement {
  std::string name;             // parts joined by '/', the same whoever computes
  std::optional<double> value;  // none: not measured
  std::string unit;
  std::optional<double> share = {};  // of `limit`, which the same run measured
  std::string limit = {};

  friend bool operator==(const Measurement&, const Measurement&) = default;
};

// A line of a table: the name, the value with its unit, and the share.
inline std::string line_of(const Measurement& m) {
  char text[160];
  if (m.value) {
    std::snprintf(text, sizeof text, "%-46s %10.1f %-8s", m.name.c_str(), *m.value, m.unit.c_str());
  } else {
    std::snprintf(text, sizeof text, "%-46s %s", m.name.c_str(), "not measured");
  }
  std::string line = text;
  if (m.value && m.share) {
    std::snprintf(text, sizeof text, " %5.1f %% of %s", 100 * *m.share, m.limit.c_str());
    line += text;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// Prints what is added, and hands all there is so far to `save`, so that it outlives a program that is cut
// off.
class Results {
 public:
  using Save = std::function<void(const std::vector<Measurement>&)>;

  explicit Results(Save save) : save_(std::move(save)) {}

  void add(Measurement measurement) {
    std::puts(line_of(measurement).c_str());
    std::fflush(stdout);
    all_.push_back(std::move(measurement));
    save_(all_);
  }

 private:
  Save save_;
  std::vector<Measurement> all_;
};

// Throws Error unless what was computed is as near to what it should be as `tolerance`; NaN is not.
inline void prove(const std::string& name, double error, double tolerance) {
  if (error <= tolerance) return;
  throw Error(name + " is wrong: its relative error is " + std::to_string(error) + ", expected at most " +
                  std::to_string(tolerance),
              "run the tests, and this program with --small under compute-sanitizer");
}

}  // namespace trilith::bench
