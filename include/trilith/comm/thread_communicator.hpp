// The communicator among ranks that are threads of one process: the embedded default.
//
// Buffers are read and written where they lie; nothing is staged. So it serves the devices whose memory this
// program can touch and whose work is done when a call returns. Each collective is cut into slices that
// whichever members wait carry out together (see thread_hub.hpp). Sums of 16-bit elements are made in float32
// and rounded once.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/comm/ledger.hpp>
#include <trilith/comm/thread_hub.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

// A posted operation, or an exchange of several.
class [[nodiscard]] ThreadHandle {
 public:
  ThreadHandle() = default;
  ThreadHandle(ThreadHandle&& other) noexcept { *this = std::move(other); }
  ThreadHandle& operator=(ThreadHandle&& other) noexcept {
    std::swap(hub_, other.hub_);
    std::swap(rank_, other.rank_);
    std::swap(operations_, other.operations_);
    return *this;
  }
  ~ThreadHandle() {
    for (const auto& operation : operations_) hub_->withdraw(*operation, rank_);
  }

  // Returns when the operation is done; at once when it has been waited for, or there is none.
  void wait(const ops::ImmediateStream& /*stream*/) {
    for (const auto& operation : operations_) hub_->finish(*operation, rank_);
    operations_.clear();
  }

 private:
  friend class ThreadCommunicator;

  ThreadHub* hub_ = nullptr;
  int rank_ = 0;
  std::vector<std::shared_ptr<ThreadHub::Operation>> operations_;
};

class ThreadCommunicator {
 public:
  using stream = ops::ImmediateStream;
  using handle = ThreadHandle;

  // Used by ThreadRank::group. `rank` is the rank of the world, one of `members`.
  ThreadCommunicator(ThreadHub& hub, Ledger& ledger, std::string name, std::vector<int> members, int rank)
      : hub_(&hub),
        ledger_(&ledger),
        name_(std::move(name)),
        members_(std::move(members)),
        world_rank_(rank),
        rank_(static_cast<int>(std::find(members_.begin(), members_.end(), rank) - members_.begin())),
        number_(hub.group_number(name_, members_, rank)),
        sent_(members_.size(), 0),
        received_(members_.size(), 0) {
    require(rank_ < size(),
            "rank " + std::to_string(rank) + " asked for group " + name_ + ", which it is not a member of",
            "ask for groups that contain the rank");
  }
  // Not copied: a copy would count its operations apart from the original.
  ThreadCommunicator(ThreadCommunicator&&) = default;
  ThreadCommunicator& operator=(ThreadCommunicator&&) = default;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  const std::string& name() const { return name_; }

  template <class T>
  handle all_reduce(const stream&, Vector<T> buffer, Reduction reduction = Reduction::sum) {
    const auto run = reduction == Reduction::sum ? &reduce_all<T, Sum> : &reduce_all<T, Max>;
    record(Collective::all_reduce, bytes_of(buffer));
    return collective<T>(reduction == Reduction::sum ? "all_reduce (sum)" : "all_reduce (max)",
                         {buffer.data(), buffer.data()}, buffer.size(), ranges(buffer.size()), run);
  }

  template <class T>
  handle reduce_scatter(const stream&, Vector<const T> input, Vector<std::type_identity_t<T>> output) {
    require_blocks(input.size(), output.size(), "reduce_scatter");
    record(Collective::reduce_scatter, bytes_of(input));
    return collective<T>("reduce_scatter", {input.data(), output.data()}, output.size(),
                         size() * ranges(output.size()), &reduce_blocks<T>);
  }

  template <class T>
  handle all_gather(const stream&, Vector<const T> input, Vector<std::type_identity_t<T>> output) {
    require_blocks(output.size(), input.size(), "all_gather");
    record(Collective::all_gather, bytes_of(output));
    return collective<T>("all_gather", {input.data(), output.data()}, input.size(),
                         size() * ranges(input.size()), &gather_blocks<T>);
  }

  template <class T>
  handle broadcast(const stream&, Vector<T> buffer, int root) {
    require(root >= 0 && root < size(),
            "broadcast from rank " + std::to_string(root) + " of group " + name_ + ", which has " +
                std::to_string(size()) + " ranks",
            "the root is a rank of the group, not of the world");
    record(Collective::broadcast, bytes_of(buffer));
    return collective<T>("broadcast from " + std::to_string(root), {buffer.data(), buffer.data()},
                         buffer.size(), ranges(buffer.size()), &copy_from_root<T>, root);
  }

  template <class T>
  handle ring_shift(const stream&, Vector<const T> input, Vector<std::type_identity_t<T>> output) {
    require(
        input.size() == output.size(),
        "ring_shift of " + std::to_string(input.size()) + " elements into " + std::to_string(output.size()),
        "both buffers have the same size");
    record(Collective::ring_shift, bytes_of(input));
    return collective<T>("ring_shift", {input.data(), output.data()}, input.size(),
                         size() * ranges(input.size()), &shift_blocks<T>);
  }

  handle barrier(const stream&) {
    record(Collective::barrier, 0);
    return collective<char>("barrier", {}, 0, 0, nullptr);
  }

  handle exchange(const stream&, std::span<const Message> messages) {
    handle result = make_handle();
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
      const Index count = static_cast<Index>(message.bytes);
      result.operations_.push_back(
          hub_->post({number_, 1 + from * size() + to, sequence++}, name_, {members_[from], members_[to]},
                     sends ? 0 : 1, {message.data, message.data},
                     {.what = "message from rank " + std::to_string(members_[from]) + " to rank " +
                              std::to_string(members_[to]) + " of " + std::to_string(count) + " bytes",
                      .slices = std::max<Index>(ceil_divide(count, message_range), 1),
                      .run = &copy_message,
                      .count = count,
                      .argument = 0}));
    }
    return result;
  }

  // Exchanges of one message.
  handle send(const stream& s, int peer, auto data) {
    return exchange(s, std::array{Message::send(peer, data)});
  }
  handle receive(const stream& s, int peer, auto data) {
    return exchange(s, std::array{Message::receive(peer, data)});
  }

 private:
  using Parts = ThreadHub::Parts;

  // Elements and bytes of one slice: small enough to share, large enough to be worth it.
  static constexpr Index range = 16384;
  static constexpr Index message_range = range * 4;

  static constexpr Index ranges(Index count) { return ceil_divide(count, range); }

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
  handle collective(const std::string& what, ThreadHub::Part part, Index count, Index slices,
                    void (*run)(const Parts&, Index, int, Index), int argument = 0) {
    handle result = make_handle();
    result.operations_.push_back(hub_->post({number_, 0, collectives_++}, name_, members_, rank_, part,
                                            {.what = what + " of " + std::to_string(count) + " elements of " +
                                                     std::to_string(sizeof(T)) + " bytes",
                                             .slices = slices,
                                             .run = run,
                                             .count = count,
                                             .argument = argument}));
    return result;
  }

  struct Sum {
    template <class T>
    static T apply(T a, T b) {
      return a + b;
    }
  };
  struct Max {
    template <class T>
    static T apply(T a, T b) {
      return a > b || a != a ? a : b;  // NaN stays
    }
  };

  // parts[k].out[first, last) = the reduction over all members of in[offset + first, offset + last), for
  // to_first ≤ k < to_last.
  template <class T, class Op>
  static void reduce_range(const Parts& parts, Index offset, Index first, Index last, std::size_t to_first,
                           std::size_t to_last) {
    using Total = std::conditional_t<half<T>, float, T>;
    constexpr Index block = 2048;  // stays in the first-level cache
    alignas(64) Total total[block];
    for (Index begin = first; begin < last; begin += block) {
      const Index length = std::min(block, last - begin);
      const T* x = static_cast<const T*>(parts[0].in) + offset + begin;
      for (Index i = 0; i < length; ++i) total[i] = static_cast<Total>(x[i]);
      for (std::size_t member = 1; member < parts.size(); ++member) {
        x = static_cast<const T*>(parts[member].in) + offset + begin;
        for (Index i = 0; i < length; ++i) total[i] = Op::apply(total[i], static_cast<Total>(x[i]));
      }
      for (std::size_t k = to_first; k < to_last; ++k) {
        write_rounded(total, length, static_cast<T*>(parts[k].out) + begin);
      }
    }
  }

  template <class Total, class T>
  static void write_rounded(const Total* total, Index count, T* to) {
    if constexpr (std::same_as<Total, T>) {
      std::memcpy(to, total, count * sizeof(T));
    } else {
      for (Index i = 0; i < count; ++i) to[i] = T(total[i]);
    }
  }

  template <class T, class Op>
  static void reduce_all(const Parts& parts, Index count, int, Index slice) {
    reduce_range<T, Op>(parts, 0, slice * range, std::min(count, (slice + 1) * range), 0, parts.size());
  }

  // Slices of collectives that move blocks: (block, range within it).
  template <class T>
  static void reduce_blocks(const Parts& parts, Index count, int, Index slice) {
    const Index block = slice / ranges(count);
    const Index first = slice % ranges(count) * range;
    reduce_range<T, Sum>(parts, block * count, first, std::min(count, first + range),
                         static_cast<std::size_t>(block), static_cast<std::size_t>(block) + 1);
  }

  template <class T>
  static void copy_range(const void* from, void* to, Index count, Index slice) {
    const Index first = slice * range;
    const T* source = static_cast<const T*>(from) + first;
    T* target = static_cast<T*>(to) + first;
    const Index length = std::min(range, count - first);
    if (source != target && length > 0) std::memcpy(target, source, length * sizeof(T));
  }

  template <class T>
  static void gather_blocks(const Parts& parts, Index count, int, Index slice) {
    const Index block = slice / ranges(count);
    for (const ThreadHub::Part& part : parts) {
      copy_range<T>(parts[block].in, static_cast<T*>(part.out) + block * count, count, slice % ranges(count));
    }
  }

  template <class T>
  static void copy_from_root(const Parts& parts, Index count, int root, Index slice) {
    for (const ThreadHub::Part& part : parts) copy_range<T>(parts[root].in, part.out, count, slice);
  }

  template <class T>
  static void shift_blocks(const Parts& parts, Index count, int, Index slice) {
    const std::size_t from = static_cast<std::size_t>(slice / ranges(count));
    copy_range<T>(parts[from].in, parts[(from + 1) % parts.size()].out, count, slice % ranges(count));
  }

  static void copy_message(const Parts& parts, Index count, int, Index slice) {
    const Index first = slice * message_range;
    const Index length = std::min(message_range, count - first);
    if (length > 0) {
      std::memcpy(static_cast<char*>(parts[1].out) + first, static_cast<const char*>(parts[0].in) + first,
                  length);
    }
  }

  ThreadHub* hub_;
  Ledger* ledger_;
  std::string name_;
  std::vector<int> members_;
  int world_rank_;
  int rank_;
  int number_;
  std::int64_t collectives_ = 0;
  std::vector<std::int64_t> sent_;      // per peer
  std::vector<std::int64_t> received_;  // per peer
};

static_assert(communicator<ThreadCommunicator>);

}  // namespace trilith::inline v0
