// What the memory accesses of a launch cost, counted warp by warp.
//
// The lanes of a warp run one after the other here, so their accesses are put together afterwards: those on
// the same line with the same count of bytes, the first of each lane with the first of the others, and so on,
// between two collectives of the warp. That is what a warp does whose lanes take the same path, or skip parts
// of it.
//
// Global memory moves in sectors of 32 bytes: an access is coalesced when sectors · 32 equals its bytes.
// Shared memory has 32 banks of 4 bytes and serves a warp in passes: one for 4 bytes a lane or less, 2 for 8,
// 4 for 16 (a quarter of the warp each), one for each matrix of ldmatrix. A pass takes one wavefront more for
// every further word in its fullest bank: CUDA C++ Programming Guide, "Shared Memory"; these are the
// conflicts.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/simt/emulated/place.hpp>

namespace trilith::inline v0::simt {

struct GlobalTraffic {
  Index instructions = 0;  // of warps
  Index bytes = 0;
  Index sectors = 0;
  friend bool operator==(const GlobalTraffic&, const GlobalTraffic&) = default;

  GlobalTraffic& operator+=(const GlobalTraffic& other) {
    instructions += other.instructions;
    bytes += other.bytes;
    sectors += other.sectors;
    return *this;
  }
};

struct SharedTraffic {
  Index instructions = 0;  // of warps
  Index wavefronts = 0;
  Index conflicts = 0;  // wavefronts beyond one a pass
  friend bool operator==(const SharedTraffic&, const SharedTraffic&) = default;

  SharedTraffic& operator+=(const SharedTraffic& other) {
    instructions += other.instructions;
    wavefronts += other.wavefronts;
    conflicts += other.conflicts;
    return *this;
  }
};

struct Counters {
  Index mma = 0;  // of warps
  Index ldmatrix = 0;
  GlobalTraffic global_loads;  // copies to shared memory among them
  GlobalTraffic global_stores;
  GlobalTraffic global_atomics;
  SharedTraffic shared_loads;   // ldmatrix among them
  SharedTraffic shared_stores;  // copies from global memory and atomics among them
  friend bool operator==(const Counters&, const Counters&) = default;

  Counters& operator+=(const Counters& other) {
    mma += other.mma;
    ldmatrix += other.ldmatrix;
    global_loads += other.global_loads;
    global_stores += other.global_stores;
    global_atomics += other.global_atomics;
    shared_loads += other.shared_loads;
    shared_stores += other.shared_stores;
    return *this;
  }

  Index bank_conflicts() const { return shared_loads.conflicts + shared_stores.conflicts; }
};

enum class Access { global_load, global_store, global_atomic, shared_load, shared_store };

class Traffic {
 public:
  explicit Traffic(Counters& counters) : counters_(&counters) {}

  void add(int lane, Access access, std::uintptr_t address, int bytes, const Place& at) {
    std::size_t i = next_[lane];
    if (i == used_ || !joins(entries_[i], lane, access, bytes, at)) {
      for (i = 0; i < used_ && !joins(entries_[i], lane, access, bytes, at); ++i) {
      }
    }
    if (i == used_) {
      if (used_ == entries_.size()) entries_.emplace_back();
      Entry& entry = entries_[used_++];
      entry.at = at;
      entry.access = access;
      entry.bytes = bytes;
      entry.lanes = 0;
    }
    entries_[i].lanes |= 1u << lane;
    entries_[i].address[lane] = address;
    next_[lane] = i + 1;
  }

  // The lanes of the warp have met: what they did so far is complete.
  void count() {
    for (std::size_t i = 0; i < used_; ++i) count(entries_[i]);
    used_ = 0;
    next_.fill(0);
  }

  // One pass over rows of 16 bytes, by ldmatrix.
  void count_matrix(const std::uintptr_t* rows) {
    const Index wavefronts = wavefronts_of(rows, 0xFFu, 16);
    counters_->shared_loads.wavefronts += wavefronts;
    counters_->shared_loads.conflicts += wavefronts - 1;
  }

 private:
  struct Entry {
    Place at;
    Access access;
    int bytes;
    std::uint32_t lanes;
    std::array<std::uintptr_t, 32> address;
  };

  static bool joins(const Entry& entry, int lane, Access access, int bytes, const Place& at) {
    return entry.at == at && entry.access == access && entry.bytes == bytes && !(entry.lanes >> lane & 1u);
  }

  void count(const Entry& entry) {
    switch (entry.access) {
      case Access::global_load: count(entry, counters_->global_loads); break;
      case Access::global_store: count(entry, counters_->global_stores); break;
      case Access::global_atomic: count(entry, counters_->global_atomics); break;
      case Access::shared_load: count(entry, counters_->shared_loads); break;
      case Access::shared_store: count(entry, counters_->shared_stores); break;
    }
  }

  static void count(const Entry& entry, GlobalTraffic& traffic) {
    std::array<std::uintptr_t, 32> sectors;
    int count = 0;
    for (std::uint32_t rest = entry.lanes; rest != 0; rest &= rest - 1) {
      const std::uintptr_t sector = entry.address[std::countr_zero(rest)] / 32;
      if (std::find(sectors.begin(), sectors.begin() + count, sector) == sectors.begin() + count)
        sectors[count++] = sector;
    }
    ++traffic.instructions;
    traffic.bytes += std::popcount(entry.lanes) * entry.bytes;
    traffic.sectors += count;
  }

  static void count(const Entry& entry, SharedTraffic& traffic) {
    const int lanes = entry.bytes <= 4 ? 32 : 128 / entry.bytes;  // of a pass
    ++traffic.instructions;
    for (int first = 0; first < 32; first += lanes) {
      const std::uint32_t pass = lanes == 32 ? entry.lanes : (entry.lanes >> first) & ((1u << lanes) - 1);
      if (pass == 0) continue;
      const Index wavefronts = wavefronts_of(entry.address.data() + first, pass, entry.bytes);
      traffic.wavefronts += wavefronts;
      traffic.conflicts += wavefronts - 1;
    }
  }

  // The most distinct words that lie in one bank.
  static Index wavefronts_of(const std::uintptr_t* address, std::uint32_t lanes, int bytes) {
    std::array<std::array<std::uintptr_t, 32>, 32> words;
    std::array<int, 32> count{};
    int most = 1;
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const std::uintptr_t first = address[std::countr_zero(rest)];
      for (std::uintptr_t word = first / 4; word <= (first + bytes - 1) / 4; ++word) {
        auto& in_bank = words[word % 32];
        int& filled = count[word % 32];
        if (std::find(in_bank.begin(), in_bank.begin() + filled, word) != in_bank.begin() + filled) continue;
        in_bank[filled++] = word;
        most = std::max(most, filled);
      }
    }
    return most;
  }

  Counters* counters_;
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
  std::array<std::size_t, 32> next_{};  // where a lane's next access probably belongs
};

}  // namespace trilith::inline v0::simt
