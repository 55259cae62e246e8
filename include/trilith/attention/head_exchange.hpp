// Ulysses' exchange of heads for rows (Jacobs et al., arXiv:2309.14509): among U neighbouring ranks, each
// goes from its rows of all heads to all their rows of its heads, and back. All-to-all, as one exchange of
// messages.
#pragma once

#include <cstddef>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

// A tensor to exchange, and where it arrives.
template <class T>
struct Exchanged {
  View<const T, 4> from;
  View<T, 4> to;
};

template <device D, communicator C>
class HeadExchange {
 public:
  using stream = typename D::stream;

  // Among the ranks first, …, first + ranks − 1 of `group`, which must outlive it.
  HeadExchange(C& group, int ranks)
      : group_(&group), ranks_(ranks), place_(group.rank() % ranks), first_(group.rank() - place_) {}

  int ranks() const { return ranks_; }
  int place() const { return place_; }

  // Bytes that an exchange of tensors of these bytes, on one rank, takes of `scratch`.
  Index scratch_bytes(Index tensors) const { return 2 * (tensors + ranks_ * alignment); }

  // from: (batch, rows, heads, dimension) of this rank; to: (batch, ranks · rows, heads / ranks, dimension),
  // the rows in order of rank. Several tensors travel in one message, one behind the other: the bytes of
  // those before must be a multiple of a tensor's element.
  template <class... T>
  void to_heads(const stream& s, Vector<std::byte> scratch, const Exchanged<T>&... tensors) const {
    all_to_all(
        s, scratch, [&](auto x, int peer) { return heads_of(x, peer); },
        [&](auto x, int peer) { return rows_of(x, peer); }, tensors...);
  }

  // The way back.
  template <class... T>
  void to_rows(const stream& s, Vector<std::byte> scratch, const Exchanged<T>&... tensors) const {
    all_to_all(
        s, scratch, [&](auto x, int peer) { return rows_of(x, peer); },
        [&](auto x, int peer) { return heads_of(x, peer); }, tensors...);
  }

 private:
  static constexpr Index alignment = 16;  // of each rank's part of the scratch

  template <class T>
  View<T, 4> heads_of(View<T, 4> x, int peer) const {
    const Index heads = x.extent(2) / ranks_;
    return x.slice(2, peer * heads, heads);
  }
  template <class T>
  View<T, 4> rows_of(View<T, 4> x, int peer) const {
    const Index rows = x.extent(1) / ranks_;
    return x.slice(1, peer * rows, rows);
  }

  // leaving(from, peer): what of a tensor goes to a rank; arriving(to, peer): where what comes from it goes.
  template <class Leaving, class Arriving, class... T>
  void all_to_all(const stream& s, Vector<std::byte> scratch, Leaving&& leaving, Arriving&& arriving,
                  const Exchanged<T>&... tensors) const {
    const Index bytes = (0 + ... + (leaving(tensors.from, 0).size() * static_cast<Index>(sizeof(T))));
    const Index step = round_up(bytes, alignment);
    const auto sent = [&](int peer) { return scratch.slice(0, peer * step, bytes); };
    const auto received = [&](int peer) { return scratch.slice(0, (ranks_ + peer) * step, bytes); };

    std::vector<Message> messages;
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == place_) {
        (copy(s, leaving(tensors.from, peer), arriving(tensors.to, peer)), ...);
        continue;
      }
      std::byte* place = sent(peer).data();
      (copy(s, leaving(tensors.from, peer), piece<T>(place, leaving(tensors.from, peer))), ...);
      messages.push_back(Message::send(first_ + peer, sent(peer)));
      messages.push_back(Message::receive(first_ + peer, received(peer)));
    }
    group_->exchange(s, messages).wait(s);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == place_) continue;
      std::byte* place = received(peer).data();
      (copy(s, View<const T, 4>(piece<T>(place, arriving(tensors.to, peer))), arriving(tensors.to, peer)),
       ...);
    }
  }

  // Of a message, from `place` on, which moves behind it: a tensor's part, without gaps.
  template <class T>
  static View<T, 4> piece(std::byte*& place, View<const T, 4> like) {
    const View<T, 4> piece(reinterpret_cast<T*>(place), like.extents());
    place += like.size() * static_cast<Index>(sizeof(T));
    return piece;
  }

  C* group_;
  int ranks_;
  int place_;
  int first_;
};

}  // namespace trilith::inline v0
