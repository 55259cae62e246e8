// The ledger of one rank: how often each collective was called on each group, and how much it moved.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

namespace trilith::inline v0 {

enum class Collective {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  ring_shift,
  send,
  receive,
  barrier
};

constexpr const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::ring_shift: return "ring_shift";
    case Collective::send: return "send";
    case Collective::receive: return "receive";
    case Collective::barrier: return "barrier";
  }
  return "";
}

class Ledger {
 public:
  struct Entry {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;    // of the buffers: the whole tensor that is reduced, gathered or moved
    double bytes_on_wire = 0;  // that one rank sends in a ring of the group's size
  };

  // Group name, kind of collective, and bytes of one call: calls of different sizes count apart.
  struct Key {
    std::string group;
    Collective kind;
    std::int64_t bytes_per_call;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void record(const std::string& group, Collective kind, std::int64_t bytes, int group_size) {
    Entry& entry = entries_[{group, kind, bytes}];
    ++entry.calls;
    entry.bytes += bytes;
    entry.bytes_on_wire += static_cast<double>(bytes) * share_sent(kind, group_size);
  }

  // All calls of one kind on one group, whatever their size; or only those of `bytes_per_call`.
  Entry total(const std::string& group, Collective kind, std::int64_t bytes_per_call = -1) const {
    Entry sum;
    for (const auto& [key, entry] : entries_) {
      if (key.group != group || key.kind != kind) continue;
      if (bytes_per_call >= 0 && key.bytes_per_call != bytes_per_call) continue;
      sum.calls += entry.calls;
      sum.bytes += entry.bytes;
      sum.bytes_on_wire += entry.bytes_on_wire;
    }
    return sum;
  }

  const std::map<Key, Entry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }

 private:
  // Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication", 2007: what each rank of a ring
  // of n sends, over the size of the whole buffer.
  static double share_sent(Collective kind, int n) {
    const double others = static_cast<double>(n - 1) / n;
    switch (kind) {
      case Collective::all_reduce: return 2 * others;
      case Collective::reduce_scatter:
      case Collective::all_gather:
      case Collective::broadcast: return others;
      case Collective::ring_shift: return n > 1 ? 1 : 0;
      case Collective::send: return 1;
      case Collective::receive:
      case Collective::barrier: return 0;
    }
    return 0;
  }

  std::map<Key, Entry> entries_;
};

}  // namespace trilith::inline v0
