// Asynchronous copies that a lane has issued and not yet waited for, in committed groups.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace trilith::inline v0::simt {

struct AsyncCopy {
  std::byte* to;
  const std::byte* from;  // nullptr: zeros

  void land() const {
    if (from != nullptr) {
      std::memcpy(to, from, 16);
    } else {
      std::memset(to, 0, 16);
    }
  }
};

// One object serves lane after lane, so that its memory stays.
class PendingCopies {
 public:
  void clear() {
    copies_.clear();
    groups_.clear();
  }
  void add(const AsyncCopy& copy) { copies_.push_back(copy); }
  void commit() { groups_.push_back(copies_.size()); }

  // Ends the oldest groups but for the newest `keep`, and calls finish(copy) for what was in them.
  template <class Finish>
  void wait(std::size_t keep, const Finish& finish) {
    if (groups_.size() <= keep) return;
    const std::size_t ended = groups_.size() - keep;
    const std::size_t done = groups_[ended - 1];
    for (std::size_t i = 0; i < done; ++i) finish(copies_[i]);
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(done));
    groups_.erase(groups_.begin(), groups_.begin() + static_cast<std::ptrdiff_t>(ended));
    for (std::size_t& end : groups_) end -= done;
  }

 private:
  std::vector<AsyncCopy> copies_;
  std::vector<std::size_t> groups_;  // the end of each committed group in copies_
};

}  // namespace trilith::inline v0::simt
