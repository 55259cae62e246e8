// Where the ranks of one process meet. An operation is posted by each of its members; once all have, it is
// carried out on the members' own buffers: slice by slice by any member that waits for it, or, where a device
// does the work in order, at once by the member that posts last. A member that has posted and computes on is
// therefore never waited for.
//
// Waiting blocks, it does not spin: there may be more ranks than cores. One mutex guards everything but the
// slices; with it, the hub knows when every rank waits, and turns that deadlock into an error.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

class ThreadHub {
 public:
  // What a member brings to an operation.
  struct Part {
    const void* in = nullptr;
    void* out = nullptr;
    std::shared_ptr<const void> kept = {};  // until the operation is over
  };
  using Parts = std::vector<Part>;

  // How an operation is carried out: whole, by the member that posts last, or slice by slice.
  struct Work {
    // Called once, with the hub locked; what it returns is kept with the operation, and is not null.
    std::shared_ptr<const void> (*begin)(const Parts& parts, Index count, int argument) = nullptr;
    Index slices = 0;
    void (*run)(const Parts& parts, Index count, int argument, Index slice) = nullptr;
    Index count = 0;
    int argument = 0;  // a root, say
  };

  // What all members must agree on.
  struct Signature {
    std::string what;  // "all_reduce sum of 96 elements of 4 bytes"
    Work work;
  };

  // Which operation: the sequence-th on a lane (collectives, or one direction between two members) of a
  // group.
  struct Key {
    int group;
    int lane;
    std::int64_t sequence;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  class Operation;

  explicit ThreadHub(int ranks) : waits_for_(ranks), inside_(ranks, false) {}
  ThreadHub(const ThreadHub&) = delete;
  ThreadHub& operator=(const ThreadHub&) = delete;

  // The number of the group of these members; the n-th request of each member means the same group.
  int group_number(const std::string& name, const std::vector<int>& members, int rank) {
    std::lock_guard lock(mutex_);
    const int turn = requests_[{name, members, rank}]++;
    return groups_.try_emplace({name, members, turn}, static_cast<int>(groups_.size())).first->second;
  }

  // Member `member` (rank `rank` of the world) of `members` posts its part.
  std::shared_ptr<Operation> post(const Key& key, const std::string& group, const std::vector<int>& members,
                                  int member, Part part, Signature signature);

  // Blocks until `operation` has begun and its slices are done, carrying out what can be.
  void finish(Operation& operation, int rank);

  // What Work::begin has returned; null where it has not been called. After finish() or withdraw().
  static const void* begun(const Operation& operation);

  // Takes back the part that `rank` has posted and will not wait for: its buffers may be gone afterwards.
  // While an exception unwinds the rank, the others wait for the rank to report it, and name that.
  void withdraw(Operation& operation, int rank);

  // Rank `rank` begins or ends a task. Ranks outside are not waited for.
  void enter(int rank) {
    std::lock_guard lock(mutex_);
    inside_[rank] = true;
    ++live_;
  }
  void leave(int rank) {
    std::lock_guard lock(mutex_);
    inside_[rank] = false;
    --live_;
    fail_if_all_wait();
  }

  // Rank `rank` has failed: every rank that waits, now or later, throws an error that names it.
  void fail(const std::string& message) {
    std::lock_guard lock(mutex_);
    fail_locked(message);
  }

  bool failed() const {
    std::lock_guard lock(mutex_);
    return failed_;
  }
  std::string failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void fail_locked(const std::string& message);
  void fail_if_all_wait();
  void throw_if_failed() const {
    if (failed_) throw Error(failure_, "this rank stops too");
  }
  void finish_locked(Operation& operation, int rank, std::unique_lock<std::mutex>& lock);

  // `rank` waits no more for an operation that not all have posted.
  void unblock(int rank) {
    waits_for_[rank] = nullptr;
    --blocked_;
  }

  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::vector<int>, int>, int> requests_;
  std::map<std::tuple<std::string, std::vector<int>, int>, int> groups_;
  std::map<Key, std::shared_ptr<Operation>> pending_;  // posted by some members, not by all
  std::vector<const Operation*> waits_for_;            // per rank: the unposted operation it is blocked in
  std::vector<bool> inside_;
  int live_ = 0;
  int blocked_ = 0;
  std::condition_variable failure_reported_;
  bool failed_ = false;
  std::string failure_;
};

class ThreadHub::Operation {
 private:
  friend class ThreadHub;

  static constexpr int nobody = -1;

  bool ready() const { return arrived_ == members_.size(); }
  bool done() const {
    return ready() && done_ == signature_.work.slices && (signature_.work.begin == nullptr || begun_);
  }
  bool withdrawn() const { return withdrawn_by_ != nobody; }

  Signature signature_;
  std::string group_;
  std::vector<int> members_;  // ranks of the world
  std::vector<bool> posted_;
  Parts parts_;
  std::shared_ptr<const void> begun_;  // what Work::begin has returned
  std::size_t arrived_ = 0;
  Index next_ = 0;  // the first slice nobody has begun
  Index done_ = 0;  // slices finished
  int active_ = 0;  // slices being worked on
  int withdrawn_by_ = nobody;
  bool unwinding_ = false;  // withdrawn because an exception left the member's code
  std::condition_variable changed_;
};

inline std::shared_ptr<ThreadHub::Operation> ThreadHub::post(const Key& key, const std::string& group,
                                                             const std::vector<int>& members, int member,
                                                             Part part, Signature signature) {
  std::lock_guard lock(mutex_);
  throw_if_failed();
  std::shared_ptr<Operation>& entry = pending_[key];
  if (!entry) {
    entry = std::make_shared<Operation>();
    entry->signature_ = std::move(signature);
    entry->group_ = group;
    entry->members_ = members;
    entry->posted_.resize(members.size(), false);
    entry->parts_.resize(members.size());
  } else if (entry->signature_.what != signature.what) {
    throw Error("group " + group + ", operation " + std::to_string(key.sequence) + ": this rank calls " +
                    signature.what + ", another calls " + entry->signature_.what,
                "all members must call the same operations, of the same size, in the same order");
  }
  std::shared_ptr<Operation> operation = entry;
  operation->parts_[member] = std::move(part);
  operation->posted_[member] = true;
  const Work& work = operation->signature_.work;
  const bool is_last = operation->arrived_ + 1 == members.size();
  if (is_last && work.begin != nullptr && !operation->withdrawn()) {
    operation->begun_ = work.begin(operation->parts_, work.count, work.argument);
  }
  ++operation->arrived_;
  if (operation->ready()) {
    pending_.erase(key);
    for (int rank : operation->members_) {
      if (waits_for_[rank] == operation.get()) unblock(rank);
    }
    operation->changed_.notify_all();
  }
  return operation;
}

inline const void* ThreadHub::begun(const Operation& operation) {
  return operation.begun_.get();
}

inline void ThreadHub::finish(Operation& op, int rank) {
  std::unique_lock lock(mutex_);
  try {
    finish_locked(op, rank, lock);
  } catch (...) {
    if (waits_for_[rank] == &op) unblock(rank);
    throw;
  }
}

inline void ThreadHub::finish_locked(Operation& op, int rank, std::unique_lock<std::mutex>& lock) {
  // How long a rank that unwinds may take to report why, before the others blame the dropped handle.
  constexpr std::chrono::seconds patience{5};
  const Work& work = op.signature_.work;
  while (!op.done()) {
    throw_if_failed();
    if (op.withdrawn()) {
      if (op.unwinding_) {
        failure_reported_.wait_for(lock, patience, [&] { return failed_; });
        throw_if_failed();
      }
      throw Error(op.signature_.what + " of group " + op.group_ + " was dropped by rank " +
                      std::to_string(op.withdrawn_by_),
                  "wait for every handle before it goes out of scope");
    }
    if (op.ready() && op.next_ < work.slices) {
      const Index slice = op.next_++;
      ++op.active_;
      lock.unlock();
      work.run(op.parts_, work.count, work.argument, slice);
      lock.lock();
      --op.active_;
      if (++op.done_ == work.slices || op.withdrawn()) op.changed_.notify_all();
      continue;
    }
    if (!op.ready() && waits_for_[rank] != &op) {
      waits_for_[rank] = &op;
      ++blocked_;
      fail_if_all_wait();
      continue;
    }
    op.changed_.wait(lock);
  }
}

inline void ThreadHub::withdraw(Operation& op, int rank) {
  std::unique_lock lock(mutex_);
  if (op.done()) return;
  op.withdrawn_by_ = rank;
  op.unwinding_ = op.unwinding_ || std::uncaught_exceptions() > 0;
  op.changed_.notify_all();
  op.changed_.wait(lock, [&] { return op.active_ == 0; });
}

inline void ThreadHub::fail_locked(const std::string& message) {
  if (failed_) return;
  failed_ = true;
  failure_ = message;
  failure_reported_.notify_all();
  for (const auto& [key, operation] : pending_) operation->changed_.notify_all();
}

inline void ThreadHub::fail_if_all_wait() {
  if (failed_ || live_ == 0 || blocked_ < live_) return;
  std::string who;
  for (std::size_t rank = 0; rank < waits_for_.size(); ++rank) {
    const Operation* op = waits_for_[rank];
    if (op == nullptr) continue;
    who += (who.empty() ? "" : ", ") + ("rank " + std::to_string(rank)) + " in " + op->signature_.what +
           " of group " + op->group_ + " for";
    for (std::size_t member = 0; member < op->members_.size(); ++member) {
      if (op->posted_[member]) continue;
      const int missing = op->members_[member];
      who += " rank " + std::to_string(missing) + (inside_[missing] ? "" : " (which has returned)");
    }
  }
  fail_locked("every rank waits and none can go on: " + who);
}

}  // namespace trilith::inline v0
