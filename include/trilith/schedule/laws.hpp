// The laws every schedule must obey, as one constexpr function over the programs of all ranks. The same
// function proves a configuration at compile time, checks it when a trainer is made, and is swept by tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>

namespace trilith::inline v0::schedule {

enum class Law {
  none,  // no law is broken
  placement,
  exactly_once,
  order,
  ascend,
  matched,
  progress,
  in_flight,
};

constexpr const char* sentence(Law law) {
  switch (law) {
    case Law::none: return "the schedule obeys every law";
    case Law::placement: return "each stage must lie in exactly one chunk of one rank";
    case Law::exactly_once:
      return "each microbatch must have exactly one forward and one backward (both parts) in each chunk";
    case Law::order:
      return "the backward of a microbatch must come after its forward, weights after input, and both after "
             "what they need of another chunk of the rank";
    case Law::ascend: return "the gradients of a chunk must ascend by microbatch";
    case Law::matched: return "the sends and receives between two ranks must match in order";
    case Law::progress:
      return "no rank may wait for ever for another, even when every group of transfers waits for its partners";
    case Law::in_flight: return "a rank must not hold more microbatches than its schedule promises";
  }
  return "";
}

// The first broken law, with the rank and the position in its program where it shows.
struct Verdict {
  Law law = Law::none;
  int rank = 0;
  int action = 0;
  friend constexpr bool operator==(const Verdict&, const Verdict&) = default;
};

namespace detail {

constexpr Verdict check_placement(const Pipeline& pipeline) {
  std::vector<int> holders(pipeline.stages(), 0);
  for (int i = 0; i < pipeline.stages(); ++i) {
    const int stage = pipeline.stage_of[i];
    if (stage < 0 || stage >= pipeline.stages() || ++holders[stage] > 1) {
      return {Law::placement, i / pipeline.chunks, 0};
    }
  }
  return {};
}

constexpr Verdict check_passes(const Pipeline& pipeline, int rank) {
  const Program& program = pipeline.programs[rank];
  const int cells = pipeline.chunks * pipeline.microbatches;
  std::vector<char> forward(cells, 0), input(cells, 0), weight(cells, 0);
  std::vector<int> last_input(pipeline.chunks, -1), last_weight(pipeline.chunks, -1);

  // Chunks of this rank that hold the stages before and after a chunk's, or −1: no exchange orders them.
  std::vector<int> before(pipeline.chunks, -1), after(pipeline.chunks, -1);
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    before[chunk] = pipeline.chunk_before(rank, chunk);
    if (before[chunk] >= 0) after[before[chunk]] = chunk;
  }
  const auto lacks = [&](const std::vector<char>& passes, int chunk, int microbatch) {
    return chunk >= 0 && !passes[chunk * pipeline.microbatches + microbatch];
  };

  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    const Action& a = program[i];
    if (a.chunk < 0 || a.chunk >= pipeline.chunks || a.microbatch < 0 ||
        a.microbatch >= pipeline.microbatches) {
      return {Law::exactly_once, rank, i};
    }
    const int cell = a.chunk * pipeline.microbatches + a.microbatch;
    if (a.pass == Pass::forward) {
      if (forward[cell]++) return {Law::exactly_once, rank, i};
      if (lacks(forward, before[a.chunk], a.microbatch)) return {Law::order, rank, i};
      continue;
    }
    if (!forward[cell]) return {Law::order, rank, i};
    if (computes_input_gradient(a.pass)) {
      if (input[cell]++) return {Law::exactly_once, rank, i};
      if (lacks(input, after[a.chunk], a.microbatch)) return {Law::order, rank, i};
      if (a.microbatch < last_input[a.chunk]) return {Law::ascend, rank, i};
      last_input[a.chunk] = a.microbatch;
    }
    if (releases_activations(a.pass)) {
      if (!input[cell]) return {Law::order, rank, i};
      if (weight[cell]++) return {Law::exactly_once, rank, i};
      if (a.microbatch < last_weight[a.chunk]) return {Law::ascend, rank, i};
      last_weight[a.chunk] = a.microbatch;
    }
  }
  for (int cell = 0; cell < cells; ++cell) {
    if (!forward[cell] || !input[cell] || !weight[cell]) {
      return {Law::exactly_once, rank, static_cast<int>(program.size())};
    }
  }
  return {};
}

constexpr Verdict check_in_flight(const Pipeline& pipeline, int rank) {
  int held = 0;
  for (int i = 0; i < static_cast<int>(pipeline.programs[rank].size()); ++i) {
    const Action& a = pipeline.programs[rank][i];
    if (a.pass == Pass::forward && ++held > pipeline.promised_peak[rank]) {
      return {Law::in_flight, rank, i};
    }
    if (releases_activations(a.pass)) --held;
  }
  return {};
}

// All transfers of one kind between a rank and a peer, with the position of the group they stand in.
struct PlacedTransfer {
  Transfer transfer;
  int group;
};

constexpr std::vector<PlacedTransfer> transfers_with(const std::vector<Exchange>& groups, int peer,
                                                     Transfer::Kind kind) {
  std::vector<PlacedTransfer> found;
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    for (const Transfer& t : groups[g].transfers) {
      if (t.peer == peer && t.kind == kind) found.push_back({t, g});
    }
  }
  return found;
}

// What travels from (rank, chunk) by `t` arrives at this stage.
constexpr int destination(const Pipeline& pipeline, int rank, const Transfer& t) {
  return pipeline.stage(rank, t.chunk) + (t.pass == Pass::forward ? 1 : -1);
}

}  // namespace detail

// Whether `groups`, the exchanges of each rank, match and come to an end. Those of exchanges() do, by their making;
// this is the proof that does not rest on it.
constexpr Verdict verify_exchanges(const Pipeline& pipeline, const std::vector<std::vector<Exchange>>& groups) {
  const int ranks = pipeline.ranks;

  // waits_for[rank][group]: groups of other ranks that must be posted before this one completes.
  struct Place {
    int rank;
    int group;
  };
  std::vector<std::vector<std::vector<Place>>> waits_for(ranks);
  for (int rank = 0; rank < ranks; ++rank) waits_for[rank].resize(groups[rank].size());

  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      const auto sends = detail::transfers_with(groups[from], to, Transfer::Kind::send);
      const auto receives = detail::transfers_with(groups[to], from, Transfer::Kind::receive);
      for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
        const bool pair =
            i < sends.size() && i < receives.size() &&
            sends[i].transfer.pass == receives[i].transfer.pass &&
            sends[i].transfer.microbatch == receives[i].transfer.microbatch &&
            detail::destination(pipeline, from, sends[i].transfer) ==
                pipeline.stage(to, receives[i].transfer.chunk);
        if (!pair) {
          const bool sent = i < sends.size();
          return {Law::matched, sent ? from : to,
                  sent ? groups[from][sends[i].group].before : groups[to][receives[i].group].before};
        }
        waits_for[from][sends[i].group].push_back({to, receives[i].group});
        waits_for[to][receives[i].group].push_back({from, sends[i].group});
      }
    }
  }

  // Each rank posts its next group and waits until all partners have posted theirs.
  std::vector<int> posted(ranks, 0);  // the group a rank stands at
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      while (posted[rank] < static_cast<int>(groups[rank].size()) &&
             std::all_of(waits_for[rank][posted[rank]].begin(), waits_for[rank][posted[rank]].end(),
                         [&](const Place& p) { return posted[p.rank] >= p.group; })) {
        ++posted[rank];
        moved = true;
      }
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (posted[rank] < static_cast<int>(groups[rank].size())) {
      return {Law::progress, rank, groups[rank][posted[rank]].before};
    }
  }
  return {};
}

constexpr Verdict verify(const Pipeline& pipeline) {
  if (const Verdict v = detail::check_placement(pipeline); v.law != Law::none) return v;
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    if (const Verdict v = detail::check_passes(pipeline, rank); v.law != Law::none) return v;
    if (const Verdict v = detail::check_in_flight(pipeline, rank); v.law != Law::none) return v;
  }
  // Each action as soon as its inputs are there: does everything run?
  const Simulation simulation = simulate(pipeline);
  for (int rank = 0; !simulation.complete && rank < pipeline.ranks; ++rank) {
    const int done = simulation.done(rank);
    if (done < static_cast<int>(pipeline.programs[rank].size())) return {Law::progress, rank, done};
  }
  return verify_exchanges(pipeline, exchanges(pipeline));
}

// Throws Error with the law that `pipeline` breaks.
inline void require_lawful(const Pipeline& pipeline, const std::string& name) {
  const Verdict verdict = verify(pipeline);
  if (verdict.law == Law::none) return;
  throw Error("schedule " + name + " is wrong at p=" + std::to_string(pipeline.ranks) + ", m=" +
                  std::to_string(pipeline.microbatches) + ", rank " + std::to_string(verdict.rank) +
                  ", action " + std::to_string(verdict.action),
              sentence(verdict.law));
}

}  // namespace trilith::inline v0::schedule
