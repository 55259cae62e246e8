// Where each microbatch lies while a rank works on it: how much memory a program needs, found by walking it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <trilith/schedule/action.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>

namespace trilith::inline v0::schedule {

// A microbatch of a chunk has one place of each kind:
//   activations       from its forward pass to its last backward part
//   inputs            the input of the stage, from its arrival on
//   gradients         from its input part to its weight part
//   output_gradients  the gradient of the stage's output, from its arrival on
struct Slots {
  struct Places {
    int microbatches;
    std::vector<int> places;  // [chunk · microbatches + microbatch], or −1
    std::vector<int> count;   // per chunk

    constexpr int of(int chunk, int microbatch) const { return places[chunk * microbatches + microbatch]; }
  };
  Places activations;
  Places inputs;
  Places gradients;
  Places output_gradients;
};

namespace detail {

// A microbatch takes the lowest free place of its chunk at the first of these: an exchange whose transfer
// `arrives` accepts; an action for which `taken_by` names the chunk (or −1). It leaves it with its last pass.
template <class Arrives, class TakenBy>
constexpr Slots::Places places(const Pipeline& pipeline, int rank, const std::vector<Exchange>& exchanges,
                               Arrives arrives, TakenBy taken_by) {
  const Program& program = pipeline.programs[rank];
  const int m = pipeline.microbatches;
  const std::size_t cells = static_cast<std::size_t>(pipeline.chunks) * m;
  const auto cell = [&](int chunk, int microbatch) {
    return static_cast<std::size_t>(chunk) * m + microbatch;
  };
  std::vector<std::size_t> last_pass(cells, 0);
  for (std::size_t i = 0; i < program.size(); ++i) {
    last_pass[cell(program[i].chunk, program[i].microbatch)] = i;
  }

  Slots::Places result{.microbatches = m,
                       .places = std::vector<int>(cells, -1),
                       .count = std::vector<int>(pipeline.chunks, 0)};
  std::vector<std::vector<char>> taken(pipeline.chunks, std::vector<char>{});
  const auto take = [&](int chunk, int microbatch) {
    if (chunk < 0 || result.of(chunk, microbatch) >= 0) return;
    std::vector<char>& row = taken[chunk];
    auto place = std::find(row.begin(), row.end(), 0);
    if (place == row.end()) place = row.insert(place, 0);
    *place = 1;
    result.places[cell(chunk, microbatch)] = static_cast<int>(place - row.begin());
  };

  auto exchange = exchanges.begin();
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Action& action = program[i];
    if (exchange != exchanges.end() && exchange->before == static_cast<int>(i)) {
      for (const Transfer& t : exchange->transfers) {
        if (t.kind == Transfer::Kind::receive && arrives(t)) take(t.chunk, t.microbatch);
      }
      ++exchange;
    }
    for (const int chunk : taken_by(action)) take(chunk, action.microbatch);
    const int place = result.of(action.chunk, action.microbatch);
    if (place >= 0 && last_pass[cell(action.chunk, action.microbatch)] == i) taken[action.chunk][place] = 0;
  }
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    result.count[chunk] = static_cast<int>(taken[chunk].size());
  }
  return result;
}

}  // namespace detail

// `exchanges`: those of the rank.
constexpr Slots slots(const Pipeline& pipeline, int rank, const std::vector<Exchange>& exchanges) {
  const auto nothing = [](const Transfer&) { return false; };
  const auto activations = [](const Transfer& t) { return t.pass == Pass::forward; };
  const auto gradients = [](const Transfer& t) { return t.pass == Pass::backward_input; };
  const auto by_forward = [](const Action& a) { return std::array{a.pass == Pass::forward ? a.chunk : -1}; };
  const auto by_input_part = [](const Action& a) {
    return std::array{computes_input_gradient(a.pass) ? a.chunk : -1};
  };
  // A stage that lies on the same rank as the next one gets its gradient when the next one has made it.
  const auto by_next_stage = [&](const Action& a) {
    const bool makes = computes_input_gradient(a.pass);
    return std::array{makes ? a.chunk : -1, makes ? pipeline.chunk_before(rank, a.chunk) : -1};
  };
  return {.activations = detail::places(pipeline, rank, exchanges, nothing, by_forward),
          .inputs = detail::places(pipeline, rank, exchanges, activations, by_forward),
          .gradients = detail::places(pipeline, rank, exchanges, nothing, by_input_part),
          .output_gradients = detail::places(pipeline, rank, exchanges, gradients, by_next_stage)};
}

constexpr Slots slots(const Pipeline& pipeline, int rank) {
  return slots(pipeline, rank, exchanges(pipeline, rank));
}

}  // namespace trilith::inline v0::schedule
