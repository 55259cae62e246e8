// Measurements as JSON:
//
//   {"machine": {"card": "NVIDIA H200", "driver": "580.159.04", "date": "2026-11-29T20:00:00Z"},
//    "measurements": [{"name": "copy", "value": 4310.2, "unit": "GB/s"},
//                     {"name": "swiglu", "value": 3900.5, "unit": "GB/s", "share": 0.905, "limit": "copy"}]}
//
// A value of null was not measured.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>

#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

struct Report {
  Machine machine;
  std::vector<Measurement> measurements;
};

inline nlohmann::ordered_json to_json(const Machine& machine) {
  return {{"card", machine.card}, {"driver", machine.driver}, {"date", machine.date}};
}

inline nlohmann::ordered_json to_json(const Measurement& m) {
  nlohmann::ordered_json entry = {{"name", m.name}, {"value", nullptr}, {"unit", m.unit}};
  if (m.value) entry["value"] = *m.value;
  if (m.share) {
    entry["share"] = *m.share;
    entry["limit"] = m.limit;
  }
  return entry;
}

inline nlohmann::ordered_json to_json(const Report& report) {
  nlohmann::ordered_json measurements = nlohmann::ordered_json::array();
  for (const Measurement& m : report.measurements) measurements.push_back(to_json(m));
  return {{"machine", to_json(report.machine)}, {"measurements", std::move(measurements)}};
}

inline void write_json(const nlohmann::ordered_json& json, const std::string& file) {
  std::ofstream out(file);
  using Json = nlohmann::ordered_json;
  out << json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) << '\n';
  if (!out.flush()) throw Error("cannot write " + file, "give a file in a folder that exists");
}

// Throws Error where `file` holds no report.
inline Report read_report(const std::string& file) {
  std::ifstream in(file);
  try {
    const nlohmann::json json = nlohmann::json::parse(in);
    const nlohmann::json& machine = json.at("machine");
    Report report{.machine = {machine.at("card"), machine.at("driver"), machine.at("date")},
                  .measurements = {}};
    for (const nlohmann::json& entry : json.at("measurements")) {
      Measurement m{.name = entry.at("name"), .value = {}, .unit = entry.at("unit")};
      if (!entry.at("value").is_null()) m.value = entry.at("value").get<double>();
      if (entry.contains("share")) {
        m.share = entry.at("share").get<double>();
        m.limit = entry.at("limit");
      }
      report.measurements.push_back(std::move(m));
    }
    return report;
  } catch (const nlohmann::json::exception& error) {
    throw Error("cannot read the report " + file + ": " + error.what(), "give a file that a benchmark wrote");
  }
}

}  // namespace trilith::bench
