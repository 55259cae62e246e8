// A world of ranks that are threads, each of which has an observer of what it communicates: operation(number)
// is called before an operation begins, wait(number) before it is waited for. Numbers count from 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/comm/ledger.hpp>
#include <trilith/comm/thread_communicator.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::test {

template <class Observer>
class [[nodiscard]] ObservedHandle {
 public:
  ObservedHandle() = default;
  ObservedHandle(ThreadCommunicator::handle handle, Observer& observer, std::int64_t number)
      : handle_(std::move(handle)), observer_(&observer), number_(number) {}

  void wait(const ThreadCommunicator::stream& s) {
    if (Observer* const observer = std::exchange(observer_, nullptr)) observer->wait(number_);
    handle_.wait(s);
  }

 private:
  ThreadCommunicator::handle handle_;
  Observer* observer_ = nullptr;
  std::int64_t number_ = 0;
};

// Of one rank, over all its groups.
template <class Observer>
struct Observed {
  Observer observer = {};
  std::int64_t operations = 0;
};

template <class Observer>
class ObservedCommunicator {
 public:
  using stream = ThreadCommunicator::stream;
  using handle = ObservedHandle<Observer>;

  ObservedCommunicator(ThreadCommunicator group, Observed<Observer>& observed)
      : group_(std::move(group)), observed_(&observed) {}

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const std::vector<int>& members() const { return group_.members(); }

  template <class T>
  handle all_reduce(const stream& s, Vector<T> buffer, Reduction reduction = Reduction::sum) {
    return observed([&] { return group_.all_reduce(s, buffer, reduction); });
  }
  template <class T>
  handle reduce_scatter(const stream& s, Vector<const T> input, Vector<T> output) {
    return observed([&] { return group_.reduce_scatter(s, input, output); });
  }
  template <class T>
  handle all_gather(const stream& s, Vector<const T> input, Vector<T> output) {
    return observed([&] { return group_.all_gather(s, input, output); });
  }
  template <class T>
  handle broadcast(const stream& s, Vector<T> buffer, int root) {
    return observed([&] { return group_.broadcast(s, buffer, root); });
  }
  template <class T>
  handle ring_shift(const stream& s, Vector<const T> input, Vector<T> output) {
    return observed([&] { return group_.ring_shift(s, input, output); });
  }
  handle exchange(const stream& s, std::span<const Message> messages) {
    return observed([&] { return group_.exchange(s, messages); });
  }
  handle barrier(const stream& s) {
    return observed([&] { return group_.barrier(s); });
  }

 private:
  template <class Operation>
  handle observed(Operation&& operation) {
    const std::int64_t number = observed_->operations++;
    observed_->observer.operation(number);
    return {operation(), observed_->observer, number};
  }

  ThreadCommunicator group_;
  Observed<Observer>* observed_;
};

template <class Observer>
class ObservedRank {
 public:
  using communicator = ObservedCommunicator<Observer>;

  explicit ObservedRank(ThreadRank& rank) : rank_(&rank) {}

  int rank() const { return rank_->rank(); }
  int size() const { return rank_->size(); }
  communicator group(const std::string& name, const std::vector<int>& members) {
    return {rank_->group(name, members), observed};
  }
  Ledger& ledger() { return rank_->ledger(); }

  Observed<Observer> observed;

 private:
  ThreadRank* rank_;
};

template <class Observer>
class ObservedWorld {
 public:
  using rank_type = ObservedRank<Observer>;
  using communicator = ObservedCommunicator<Observer>;

  explicit ObservedWorld(int ranks) : world_(ranks) {
    for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<rank_type>(world_.rank(r)));
  }

  int size() const { return world_.size(); }
  rank_type& rank(int index) { return *ranks_[static_cast<std::size_t>(index)]; }
  void run(const std::function<void(rank_type&)>& task) {
    world_.run([&](ThreadRank& rank) { task(this->rank(rank.rank())); });
  }

 private:
  ThreadWorld world_;
  std::vector<std::unique_ptr<rank_type>> ranks_;
};

// Throws at the operation of that number.
struct Fuse {
  std::int64_t blows_at = -1;

  void operation(std::int64_t number) const {
    if (number == blows_at) throw std::runtime_error("a fuse blew");
  }
  void wait(std::int64_t) const {}
};

// Whose ranks can be made to throw at any of their communications.
using FusedWorld = ObservedWorld<Fuse>;

}  // namespace trilith::test
