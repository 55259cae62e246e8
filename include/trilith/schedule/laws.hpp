// The laws every schedule must obey, as one constexpr function over the programs of all ranks. The same
// function proves a configuration at compile time, checks it when a trainer is made, and is swept by tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/simulate.hpp>

namespace trilith::inline v0::schedule {

// (name, sentence)
#define TRILITH_LAWS(LAW)                                                                                 \
  LAW(placement, "each stage must lie in exactly one chunk of one rank")                                  \
  LAW(exactly_once,                                                                                       \
      "each microbatch must have exactly one forward and one backward (both parts) in each chunk")        \
  LAW(order,                                                                                              \
      "the backward of a microbatch must come after its forward, weights after input, and both after "    \
      "what they need of another chunk of the rank")                                                      \
  LAW(ascend, "the gradients of a chunk must ascend by microbatch")                                       \
  LAW(matched, "the sends and receives between two ranks must match in order")                            \
  LAW(progress,                                                                                           \
      "no rank may wait for ever for another, even when every group of transfers waits for its partners") \
  LAW(in_flight, "a rank must not hold more microbatches than its schedule promises")

enum class Law {
  none,  // no law is broken
#define TRILITH_NAME(name, sentence) name,
  TRILITH_LAWS(TRILITH_NAME)
#undef TRILITH_NAME
};

constexpr const char* sentence(Law law) {
  switch (law) {
    case Law::none: return "the schedule obeys every law";
#define TRILITH_CASE(name, sentence) \
  case Law::name: return sentence;
      TRILITH_LAWS(TRILITH_CASE)
#undef TRILITH_CASE
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

// Does not compile where a law is broken.
template <Verdict V, class Policy, int Ranks, int Microbatches>
struct Lawful {
#define TRILITH_ASSERT(name, sentence) static_assert(V.law != Law::name, sentence);
  TRILITH_LAWS(TRILITH_ASSERT)
#undef TRILITH_ASSERT
};

#undef TRILITH_LAWS

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

// A transfer, the group in which it stands, and its place among all transfers of its rank.
struct PlacedTransfer {
  const Transfer* transfer;
  int group;
  std::size_t place;
};

// What a rank exchanges with one peer, in order.
struct Channel {
  int peer;
  std::vector<PlacedTransfer> sends = {};
  std::vector<PlacedTransfer> receives = {};
};

// That with `peer`; made, with room for so many transfers, if there is none.
constexpr Channel& channel(std::vector<Channel>& of_rank, int peer, std::size_t transfers) {
  for (Channel& c : of_rank) {
    if (c.peer == peer) return c;
  }
  of_rank.push_back({.peer = peer});
  of_rank.back().sends.reserve(transfers);
  of_rank.back().receives.reserve(transfers);
  return of_rank.back();
}

// Whether what `from` sends is what `to` waits for.
constexpr bool is_pair(const Pipeline& pipeline, int from, const Transfer& send, int to,
                       const Transfer& receive) {
  const int destination = pipeline.stage(from, send.chunk) + (send.pass == Pass::forward ? 1 : -1);
  return send.pass == receive.pass && send.microbatch == receive.microbatch &&
         destination == pipeline.stage(to, receive.chunk);
}

}  // namespace detail

// Whether `groups`, the exchanges of each rank, match and come to an end. Those of exchanges() do, by their
// making; this is the proof that does not rest on it.
constexpr Verdict verify_exchanges(const Pipeline& pipeline,
                                   const std::vector<std::vector<Exchange>>& groups) {
  const int ranks = pipeline.ranks;
  std::vector<std::vector<detail::Channel>> channels(ranks, std::vector<detail::Channel>{});
  std::vector<std::size_t> transfers(ranks, 0);  // of each rank
  const std::size_t room = static_cast<std::size_t>(pipeline.chunks) * pipeline.microbatches;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int g = 0; g < static_cast<int>(groups[rank].size()); ++g) {
      for (const Transfer& t : groups[rank][g].transfers) {
        detail::Channel& c = detail::channel(channels[rank], t.peer, room);
        (t.kind == Transfer::Kind::send ? c.sends : c.receives).push_back({&t, g, transfers[rank]++});
        detail::channel(channels[t.peer], rank, room);
      }
    }
  }

  // partners[rank][place]: the group that must be posted before that of this transfer completes.
  struct Place {
    int rank;
    int group;
  };
  std::vector<std::vector<Place>> partners(ranks, std::vector<Place>{});
  for (int rank = 0; rank < ranks; ++rank) partners[rank].assign(transfers[rank], Place{});
  for (int from = 0; from < ranks; ++from) {
    for (const detail::Channel& there : channels[from]) {
      const int to = there.peer;
      const auto& sends = there.sends;
      const auto& receives = detail::channel(channels[to], from, room).receives;
      for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
        if (i >= sends.size()) return {Law::matched, to, groups[to][receives[i].group].before};
        const detail::PlacedTransfer& send = sends[i];
        if (i >= receives.size() ||
            !detail::is_pair(pipeline, from, *send.transfer, to, *receives[i].transfer)) {
          return {Law::matched, from, groups[from][send.group].before};
        }
        const detail::PlacedTransfer& receive = receives[i];
        partners[from][send.place] = {to, receive.group};
        partners[to][receive.place] = {from, send.group};
      }
    }
  }

  // Each rank posts its next group and waits until all partners have posted theirs.
  std::vector<int> posted(ranks, 0);         // the group a rank stands at
  std::vector<std::size_t> place(ranks, 0);  // of that group's first transfer
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      while (posted[rank] < static_cast<int>(groups[rank].size())) {
        const Place* next = partners[rank].data() + place[rank];
        const Place* const end = next + groups[rank][posted[rank]].transfers.size();
        while (next != end && posted[next->rank] >= next->group) ++next;
        if (next != end) break;
        place[rank] += groups[rank][posted[rank]].transfers.size();
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

// What each rank's program is by itself.
constexpr Verdict verify_programs(const Pipeline& pipeline) {
  if (const Verdict v = detail::check_placement(pipeline); v.law != Law::none) return v;
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    if (const Verdict v = detail::check_passes(pipeline, rank); v.law != Law::none) return v;
    if (const Verdict v = detail::check_in_flight(pipeline, rank); v.law != Law::none) return v;
  }
  return {};
}

// With each action as soon as its inputs are there, everything runs.
constexpr Verdict verify_progress(const Pipeline& pipeline, const Simulation& simulation) {
  for (int rank = 0; !simulation.complete && rank < pipeline.ranks; ++rank) {
    const int done = simulation.done(rank);
    if (done < static_cast<int>(pipeline.programs[rank].size())) return {Law::progress, rank, done};
  }
  return {};
}

constexpr Verdict verify(const Pipeline& pipeline) {
  if (const Verdict v = verify_programs(pipeline); v.law != Law::none) return v;
  const Simulation simulation = simulate(pipeline);
  if (const Verdict v = verify_progress(pipeline, simulation); v.law != Law::none) return v;
  return verify_exchanges(pipeline, exchanges(pipeline, simulation));
}

// Throws Error with the law that `pipeline` breaks.
inline void require_lawful(const Pipeline& pipeline, const std::string& name) {
  const Verdict verdict = verify(pipeline);
  if (verdict.law == Law::none) return;
  throw Error("schedule " + name + " is wrong at p=" + std::to_string(pipeline.ranks) +
                  ", m=" + std::to_string(pipeline.microbatches) + ", rank " + std::to_string(verdict.rank) +
                  ", action " + std::to_string(verdict.action),
              sentence(verdict.law));
}

}  // namespace trilith::inline v0::schedule
