// The communicator among ranks that are threads of one process: the embedded default.
//
// Buffers are read and written where they lie; nothing is staged. How that is done depends on the device, and
// is its carrier's matter. A carrier has
//
//     stream
//     Carrier(rank, members)    `rank` of the world, one of the `members`; throws where they cannot meet
//     kept(stream)              of parts posted now: what is to be kept, for the carrier, until all is over
//     wait(stream, begun)       makes later work on the stream start after an operation that is finished as
//                               far as the hub knows; `begun` is what its Work::begin has returned
//     abandon(begun)            returns when that operation touches no buffer any more
//
// and the Work (thread_hub.hpp) of each operation among `ranks`: all_reduce<T>(ranks, count, reduction),
// reduce_scatter<T>(ranks, count), all_gather<T>(ranks, count), broadcast<T>(ranks, count, root),
// ring_shift<T>(ranks, count), barrier(), and message(bytes), whose parts are the sender's and the
// receiver's. `count` is of a block where there are blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/comm/ledger.hpp>
#include <trilith/comm/slice_carrier.hpp>
#include <trilith/comm/thread_hub.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

template <class Carrier>
class BasicThreadCommunicator;

// A posted operation, or an exchange of several. Not the class is nodiscard but what returns one: nvcc takes
// the reference that an assignment returns for a value.
template <class Carrier>
class BasicThreadHandle {
 public:
  BasicThreadHandle() = default;
  BasicThreadHandle(BasicThreadHandle&& other) noexcept { swap(other); }
  BasicThreadHandle& operator=(BasicThreadHandle&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BasicThreadHandle() {
    for (const auto& operation : operations_) {
      hub_->withdraw(*operation, rank_);
      Carrier::abandon(ThreadHub::begun(*operation));
    }
  }

  // Makes later work on the stream start after the operation; nothing to do when it has been waited for, or
  // there is none.
  void wait(const typename Carrier::stream& stream) {
    for (const auto& operation : operations_) {
      hub_->finish(*operation, rank_);
      Carrier::wait(stream, ThreadHub::begun(*operation));
    }
    operations_.clear();
  }

 private:
  friend class BasicThreadCommunicator<Carrier>;

  void swap(BasicThreadHandle& other) noexcept {
    std::swap(hub_, other.hub_);
    std::swap(rank_, other.rank_);
    std::swap(operations_, other.operations_);
  }

  ThreadHub* hub_ = nullptr;
  int rank_ = 0;
  std::vector<std::shared_ptr<ThreadHub::Operation>> operations_;
};

template <class Carrier>
class BasicThreadCommunicator {
 public:
  using stream = typename Carrier::stream;
  using handle = BasicThreadHandle<Carrier>;

  // Used by a rank's group(). `rank` is the rank of the world, one of `members`.
  BasicThreadCommunicator(ThreadHub& hub, Ledger& ledger, std::string name, std::vector<int> members,
                          int rank)
      : hub_(&hub),
        ledger_(&ledger),
        name_(std::move(name)),
        members_(std::move(members)),
        world_rank_(rank),
        rank_(static_cast<int>(std::find(members_.begin(), members_.end(), rank) - members_.begin())),
        number_(hub.group_number(name_, members_, rank)),
        carrier_(rank, members_),
        sent_(members_.size(), 0),
        received_(members_.size(), 0) {
    require(rank_ < size(),
            "rank " + std::to_string(rank) + " asked for group " + name_ + ", which it is not a member of",
            "ask for groups that contain the rank");
  }
  // Not copied: a copy would count its operations apart from the original.
  BasicThreadCommunicator(BasicThreadCommunicator&&) = default;
  BasicThreadCommunicator& operator=(BasicThreadCommunicator&&) = default;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  const std::string& name() const { return name_; }

  template <class T>
  [[nodiscard]] handle all_reduce(const stream& s, Vector<T> buffer, Reduction reduction = Reduction::sum) {
    record(Collective::all_reduce, bytes_of(buffer));
    return collective<T>(s, reduction == Reduction::sum ? "all_reduce (sum)" : "all_reduce (max)",
                         buffer.data(), buffer.data(),
                         Carrier::template all_reduce<T>(size(), buffer.size(), reduction));
  }

  template <class T>
  [[nodiscard]] handle reduce_scatter(const stream& s, Vector<const T> input,
                                      Vector<std::type_identity_t<T>> output) {
    require_blocks(input.size(), output.size(), "reduce_scatter");
    record(Collective::reduce_scatter, bytes_of(input));
    return collective<T>(s, "reduce_scatter", input.data(), output.data(),
                         Carrier::template reduce_scatter<T>(size(), output.size()));
  }

  template <class T>
  [[nodiscard]] handle all_gather(const stream& s, Vector<const T> input,
                                  Vector<std::type_identity_t<T>> output) {
    require_blocks(output.size(), input.size(), "all_gather");
    record(Collective::all_gather, bytes_of(output));
    return collective<T>(s, "all_gather", input.data(), output.data(),
                         Carrier::template all_gather<T>(size(), input.size()));
  }

  template <class T>
  [[nodiscard]] handle broadcast(const stream& s, Vector<T> buffer, int root) {
    require(root >= 0 && root < size(),
            "broadcast from rank " + std::to_string(root) + " of group " + name_ + ", which has " +
                std::to_string(size()) + " ranks",
            "the root is a rank of the group, not of the world");
    record(Collective::broadcast, bytes_of(buffer));
    return collective<T>(s, "broadcast from " + std::to_string(root), buffer.data(), buffer.data(),
                         Carrier::template broadcast<T>(size(), buffer.size(), root));
  }

  template <class T>
  [[nodiscard]] handle ring_shift(const stream& s, Vector<const T> input,
                                  Vector<std::type_identity_t<T>> output) {
    require(
        input.size() == output.size(),
        "ring_shift of " + std::to_string(input.size()) + " elements into " + std::to_string(output.size()),
        "both buffers have the same size");
    record(Collective::ring_shift, bytes_of(input));
    return collective<T>(s, "ring_shift", input.data(), output.data(),
                         Carrier::template ring_shift<T>(size(), input.size()));
  }

  [[nodiscard]] handle barrier(const stream& s) {
    record(Collective::barrier, 0);
    return collective<char>(s, "barrier", nullptr, nullptr, Carrier::barrier());
  }

  [[nodiscard]] handle exchange(const stream& s, std::span<const Message> messages) {
    handle result = make_handle();
    const std::shared_ptr<const void> kept = carrier_.kept(s);
    for (const Message& message : messages) {
      require(message.peer >= 0 && message.peer < size() && message.peer != rank_,
              "message between rank " + std::to_string(rank_) + " and rank " + std::to_string(message.peer) +
                  " of group " + name_ + ", which has " + std::to_string(size()) + " ranks",
              "the peer is another rank of the group");
      const bool sends = message.kind == Message::Kind::send;
      record(sends ? Collective::send : Collective::receive, static_cast<std::int64_t>(message.bytes));
      const int from = sends ? rank_ : message.peer;
      const int to = sends ? message.peer : rank_;
      std::int64_t& sequence = sends ? sent_[message.peer] : received_[message.peer];
      result.operations_.push_back(hub_->post(
          {number_, 1 + from * size() + to, sequence++}, name_, {members_[from], members_[to]}, sends ? 0 : 1,
          {message.data, message.data, kept},
          {.what = "message from rank " + std::to_string(members_[from]) + " to rank " +
                   std::to_string(members_[to]) + " of " + std::to_string(message.bytes) + " bytes",
           .work = Carrier::message(static_cast<Index>(message.bytes))}));
    }
    return result;
  }

  // Exchanges of one message.
  [[nodiscard]] handle send(const stream& s, int peer, auto data) {
    return exchange(s, std::array{Message::send(peer, data)});
  }
  [[nodiscard]] handle receive(const stream& s, int peer, auto data) {
    return exchange(s, std::array{Message::receive(peer, data)});
  }

 private:
  template <class T>
  static std::int64_t bytes_of(Vector<T> buffer) {
    return buffer.size() * static_cast<std::int64_t>(sizeof(T));
  }

  void record(Collective kind, std::int64_t bytes) { ledger_->record(name_, kind, bytes, size()); }

  void require_blocks(Index whole, Index block, const char* what) const {
    require(whole == block * size(),
            std::string(what) + " on group " + name_ + " of " + std::to_string(size()) +
                " ranks: the whole has " + std::to_string(whole) + " elements, a block " +
                std::to_string(block),
            "the whole is one block for each rank");
  }

  handle make_handle() const {
    handle result;
    result.hub_ = hub_;
    result.rank_ = world_rank_;
    return result;
  }

  template <class T>
  handle collective(const stream& s, const std::string& what, const void* in, void* out,
                    const ThreadHub::Work& work) {
    handle result = make_handle();
    result.operations_.push_back(hub_->post({number_, 0, collectives_++}, name_, members_, rank_,
                                            {in, out, carrier_.kept(s)},
                                            {.what = what + " of " + std::to_string(work.count) +
                                                     " elements of " + std::to_string(sizeof(T)) + " bytes",
                                             .work = work}));
    return result;
  }

  ThreadHub* hub_;
  Ledger* ledger_;
  std::string name_;
  std::vector<int> members_;
  int world_rank_;
  int rank_;
  int number_;
  Carrier carrier_;
  std::int64_t collectives_ = 0;
  std::vector<std::int64_t> sent_;      // per peer
  std::vector<std::int64_t> received_;  // per peer
};

using ThreadCommunicator = BasicThreadCommunicator<SliceCarrier>;
using ThreadHandle = ThreadCommunicator::handle;

static_assert(communicator<ThreadCommunicator>);

}  // namespace trilith::inline v0
