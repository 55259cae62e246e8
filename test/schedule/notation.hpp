// Programs as one reads them, for tests: `F0 F1 B0 B1`, with F for forward, B for backward, I and W for its
// input and weight parts, then the microbatch and, where it is not 0, the chunk: `F0.1`. `F4&B0.1` is fused.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <trilith/schedule/pipeline.hpp>

namespace trilith::schedule::test {

inline std::string to_text(const Program& program) {
  std::string text;
  bool fused = false;
  for (const Action& a : program) {
    if (!text.empty()) text += fused ? '&' : ' ';
    text += "FBIW"[static_cast<int>(a.pass)];
    text += std::to_string(a.microbatch);
    if (a.chunk != 0) text.append(".").append(std::to_string(a.chunk));
    fused = a.fused_with_next;
  }
  return text;
}

inline Program parse(const std::string& text) {
  Program program;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::istringstream parts(word);
    for (std::string part; std::getline(parts, part, '&');) {
      const std::size_t dot = part.find('.');
      program.push_back({.pass = static_cast<Pass>(std::string("FBIW").find(part[0])),
                         .microbatch = std::stoi(part.substr(1, dot - 1)),
                         .chunk = dot == std::string::npos ? 0 : std::stoi(part.substr(dot + 1)),
                         .fused_with_next = !parts.eof()});
    }
  }
  return program;
}

// A pipeline of programs written by hand. `stage_of`: of each rank's chunks, rank by rank; left out, stage r
// lies on rank r.
inline Pipeline by_hand(int microbatches, const std::vector<std::string>& programs,
                        std::vector<int> promised_peak, std::vector<int> stage_of = {}) {
  const int ranks = static_cast<int>(programs.size());
  Pipeline pipeline{.ranks = ranks, .microbatches = microbatches, .promised_peak = std::move(promised_peak)};
  if (stage_of.empty()) {
    for (int rank = 0; rank < ranks; ++rank) stage_of.push_back(rank);
  }
  pipeline.chunks = static_cast<int>(stage_of.size()) / ranks;
  pipeline.stage_of = std::move(stage_of);
  for (const std::string& program : programs) pipeline.programs.push_back(parse(program));
  return pipeline;
}

}  // namespace trilith::schedule::test
