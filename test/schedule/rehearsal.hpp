// Rehearses a pipeline without computing: every rank walks its program and its exchanges, and a group of
// transfers ends only when the partner of each of its transfers has been posted too, as with rendezvous
// messages. Written apart from the laws, from the contract of exchanges alone, so that one can find the
// other's faults.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <trilith/schedule/exchange.hpp>
#include <trilith/schedule/pipeline.hpp>

namespace trilith::schedule::test {

class Rehearsal {
 public:
  Rehearsal(const Pipeline& pipeline, std::vector<std::vector<Exchange>> groups)
      : pipeline_(pipeline), groups_(std::move(groups)), ranks_(pipeline.ranks) {}

  explicit Rehearsal(const Pipeline& pipeline) : Rehearsal(pipeline, exchanges(pipeline)) {}

  // What goes wrong first, or "" where every rank ends with all messages delivered.
  std::string run() {
    for (bool moved = true; moved && problem_.empty();) {
      moved = false;
      for (int rank = 0; rank < pipeline_.ranks; ++rank) {
        while (problem_.empty() && step(rank)) moved = true;
      }
    }
    for (int rank = 0; rank < pipeline_.ranks && problem_.empty(); ++rank) {
      if (!ended(rank)) problem_ = "deadlock: " + place(rank);
    }
    return problem_;
  }

 private:
  using Piece =
      std::pair<Pass, std::pair<int, int>>;  // of (microbatch, chunk): activations or their gradient
  struct Posted {
    int from;
    int to;
    std::size_t position;
    Transfer transfer;
  };
  struct Rank {
    int action = 0;
    std::size_t group = 0;
    std::vector<Posted> posted = {};  // of the group that is being waited for
    std::vector<Piece> received = {};
    std::vector<Piece> done = {};
  };
  struct Channel {
    std::vector<Transfer> sends;
    std::vector<Transfer> receives;
  };

  std::string place(int rank) const {
    return "rank " + std::to_string(rank) + ", action " + std::to_string(ranks_[rank].action);
  }

  bool ended(int rank) const {
    const Rank& r = ranks_[rank];
    return r.action == static_cast<int>(pipeline_.programs[rank].size()) && r.group == groups_[rank].size();
  }

  bool step(int rank) {
    Rank& r = ranks_[rank];
    if (r.group < groups_[rank].size() && groups_[rank][r.group].before == r.action) return exchange(rank);
    if (r.action == static_cast<int>(pipeline_.programs[rank].size())) return false;
    act(rank, pipeline_.programs[rank][r.action]);
    ++r.action;
    return true;
  }

  bool exchange(int rank) {
    Rank& r = ranks_[rank];
    if (r.posted.empty()) {
      for (const Transfer& t : groups_[rank][r.group].transfers) {
        const bool sends = t.kind == Transfer::Kind::send;
        const int from = sends ? rank : t.peer;
        const int to = sends ? t.peer : rank;
        Channel& channel = channels_[{from, to}];
        std::vector<Transfer>& side = sends ? channel.sends : channel.receives;
        r.posted.push_back({from, to, side.size(), t});
        side.push_back(t);
      }
      return true;
    }
    for (const Posted& p : r.posted) {
      const Channel& channel = channels_[{p.from, p.to}];
      if (std::min(channel.sends.size(), channel.receives.size()) <= p.position) return false;
    }
    for (const Posted& p : r.posted) {
      const Channel& channel = channels_[{p.from, p.to}];
      const Transfer& sent = channel.sends[p.position];
      const Transfer& received = channel.receives[p.position];
      const int step = sent.pass == Pass::forward ? 1 : -1;
      if (sent.pass != received.pass || sent.microbatch != received.microbatch ||
          pipeline_.stage(p.from, sent.chunk) + step != pipeline_.stage(p.to, received.chunk)) {
        problem_ = "a message meets another's receive: " + place(rank);
      }
      if (p.transfer.kind == Transfer::Kind::receive) {
        r.received.push_back({p.transfer.pass, {p.transfer.microbatch, p.transfer.chunk}});
      }
    }
    r.posted.clear();
    ++r.group;
    return true;
  }

  // An action needs what its stage's neighbour has made: from a message, or from an earlier action of the
  // rank.
  void act(int rank, const Action& action) {
    if (action.pass == Pass::backward_weight) return;
    const bool forward = action.pass == Pass::forward;
    const Pass travels = forward ? Pass::forward : Pass::backward_input;
    Rank& r = ranks_[rank];
    r.done.push_back({travels, {action.microbatch, action.chunk}});
    const int from = pipeline_.stage(rank, action.chunk) + (forward ? -1 : 1);
    if (from < 0 || from >= pipeline_.stages()) return;
    const auto [maker, chunk] = pipeline_.place_of(from);
    const std::vector<Piece>& pieces = maker == rank ? r.done : r.received;
    const Piece needed{travels, {action.microbatch, maker == rank ? chunk : action.chunk}};
    if (std::count(pieces.begin(), pieces.end(), needed) != 1) {
      problem_ = "input has not come: " + place(rank);
    }
  }

  const Pipeline& pipeline_;
  std::vector<std::vector<Exchange>> groups_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, Channel> channels_;
  std::string problem_;
};

}  // namespace trilith::schedule::test
