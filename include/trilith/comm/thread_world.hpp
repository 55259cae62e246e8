// A world whose ranks are threads of this process. It needs nothing but this program, so it is what tests,
// examples and single machines use; a world of processes has the same members.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <trilith/comm/ledger.hpp>
#include <trilith/comm/thread_communicator.hpp>
#include <trilith/comm/thread_hub.hpp>
#include <trilith/comm/world.hpp>
#include <trilith/core/error.hpp>

namespace trilith::inline v0 {

// One rank, as the code that runs on it sees it.
template <communicator Communicator>
class BasicThreadRank {
 public:
  using communicator = Communicator;

  BasicThreadRank(ThreadHub& hub, int rank, int size) : hub_(&hub), rank_(rank), size_(size) {}
  BasicThreadRank(const BasicThreadRank&) = delete;  // communicators write into its ledger
  BasicThreadRank& operator=(const BasicThreadRank&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // The communicator of these ranks of the world. Every member must ask for it.
  communicator group(const std::string& name, const std::vector<int>& members) {
    std::vector<bool> seen(static_cast<std::size_t>(size_), false);
    for (const int member : members) {
      require(member >= 0 && member < size_ && !seen[static_cast<std::size_t>(member)],
              "group " + name + " has the member " + std::to_string(member) + " in a world of " +
                  std::to_string(size_) + " ranks",
              "give each rank of the world at most once");
      seen[static_cast<std::size_t>(member)] = true;
    }
    return {*hub_, ledger_, name, members, rank_};
  }

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

 private:
  ThreadHub* hub_;
  int rank_;
  int size_;
  Ledger ledger_;
};

template <communicator Communicator>
class BasicThreadWorld {
 public:
  using rank_type = BasicThreadRank<Communicator>;
  using communicator = Communicator;

  explicit BasicThreadWorld(int ranks) : hub_((check_size(ranks), ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<rank_type>(hub_, rank, ranks));
    }
    for (int rank = 0; rank < ranks; ++rank) start(rank);
  }
  BasicThreadWorld(const BasicThreadWorld&) = delete;
  BasicThreadWorld& operator=(const BasicThreadWorld&) = delete;

  ~BasicThreadWorld() { stop(); }

  int size() const { return static_cast<int>(ranks_.size()); }

  // The ranks of this process, all of them here.
  rank_type& rank(int index) { return *ranks_[index]; }
  const rank_type& rank(int index) const { return *ranks_[index]; }

  // Calls task(rank) on every rank's own thread and returns when all have returned. When one throws, all
  // others stop with an error that names it, and run() throws the first one's; the world is of no use
  // afterwards. Not to be called from a rank.
  void run(const std::function<void(rank_type&)>& task) {
    require(!hub_.failed(), "this world has failed: " + hub_.failure(), "make a new world");
    require(!busy_.exchange(true), "run() was called while a run of this world is on",
            "call it from outside the ranks, one at a time");
    for (int rank = 0; rank < size(); ++rank) hub_.enter(rank);
    std::unique_lock lock(mutex_);
    task_ = &task;
    ++round_;
    running_ = size();
    first_failure_ = nullptr;
    changed_.notify_all();
    finished_.wait(lock, [&] { return running_ == 0; });
    task_ = nullptr;
    busy_ = false;
    if (first_failure_) std::rethrow_exception(first_failure_);
  }

 private:
  static void check_size(int ranks) {
    require(ranks > 0, "a world of " + std::to_string(ranks) + " ranks", "a world has at least one rank");
  }

  void start(int rank) {
    try {
      threads_.emplace_back([this, rank] { serve(rank); });
    } catch (const std::exception& error) {
      stop();
      throw Error("the thread of rank " + std::to_string(rank) + " in a world of " + std::to_string(size()) +
                      " ranks cannot be started: " + error.what(),
                  "allow more threads or memory (ulimit -u, ulimit -v), or use fewer ranks");
    }
  }

  // Ends the threads that have been started.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void serve(int rank) {
    for (std::int64_t served = 0;; ++served) {
      const std::function<void(rank_type&)>* task = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || round_ > served; });
        if (stopping_) return;
        task = task_;
      }
      const std::exception_ptr failure = attempt(*task, rank);
      hub_.leave(rank);
      std::lock_guard lock(mutex_);
      if (failure) first_failure_ = failure;
      if (--running_ == 0) finished_.notify_all();
    }
  }

  // Runs the task, and reports its failure to the other ranks. The exception comes back with the rank's
  // name; a rank that merely stopped because of another one gives none.
  std::exception_ptr attempt(const std::function<void(rank_type&)>& task, int rank) {
    const std::string place = "rank " + std::to_string(rank);
    try {
      task(*ranks_[rank]);
      return nullptr;
    } catch (const Error& error) {
      return report(error.at(place));
    } catch (const std::exception& error) {
      return report(Error(error.what(), "", place));
    } catch (...) {
      return report(Error("something that is not a std::exception was thrown", "", place));
    }
  }

  // Only the first failure counts: the others follow from it.
  std::exception_ptr report(const Error& error) {
    std::lock_guard lock(mutex_);
    if (std::exchange(failed_, true)) return nullptr;
    hub_.fail(error.where() + " failed: " + error.problem());
    return std::make_exception_ptr(error);
  }

  ThreadHub hub_;
  std::vector<std::unique_ptr<rank_type>> ranks_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable finished_;
  const std::function<void(rank_type&)>* task_ = nullptr;
  std::int64_t round_ = 0;
  int running_ = 0;
  std::atomic<bool> busy_ = false;  // a run is on
  bool stopping_ = false;
  bool failed_ = false;
  std::exception_ptr first_failure_;
};

using ThreadRank = BasicThreadRank<ThreadCommunicator>;
using ThreadWorld = BasicThreadWorld<ThreadCommunicator>;

static_assert(world<ThreadWorld>);

// The world of threads whose ranks compute on device D: ThreadWorld, unless D's own header says another.
template <class D>
struct ThreadWorldOf {
  using type = ThreadWorld;
};

}  // namespace trilith::inline v0
