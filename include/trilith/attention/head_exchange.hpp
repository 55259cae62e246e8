// Ulysses' exchange of heads for rows (Jacobs et al., arXiv:2309.14509): among U neighbouring ranks, each
// goes from its rows of all heads to all their rows of its heads, and back. All-to-all, as one exchange of
// messages.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

template <device D, communicator C>
class HeadExchange {
 public:
  using stream = typename D::stream;

  // Among the ranks first, …, first + ranks − 1 of `group`, which must outlive it.
  HeadExchange(C& group, int ranks)
      : group_(&group), ranks_(ranks), place_(group.rank() % ranks), first_(group.rank() - place_) {}

  int ranks() const { return ranks_; }
  int place() const { return place_; }

  // x: (batch, rows, heads, dimension) of this rank; y: (batch, ranks · rows, heads / ranks, dimension), the
  // rows in order of rank. Several tensors travel in one message. scratch: twice as many elements as all x.
  template <std::size_t Count>
  void to_heads(const stream& s, const std::array<View<const float, 4>, Count>& x,
                const std::array<View<float, 4>, Count>& y, Vector<float> scratch) const {
    all_to_all(
        s, scratch,
        [&](int peer, std::size_t i) {
          const Index heads = x[i].extent(2) / ranks_;
          return x[i].slice(2, peer * heads, heads);
        },
        [&](int peer, std::size_t i) {
          const Index rows = y[i].extent(1) / ranks_;
          return y[i].slice(1, peer * rows, rows);
        },
        Count);
  }

  // The way back.
  template <std::size_t Count>
  void to_rows(const stream& s, const std::array<View<const float, 4>, Count>& y,
               const std::array<View<float, 4>, Count>& x, Vector<float> scratch) const {
    all_to_all(
        s, scratch,
        [&](int peer, std::size_t i) {
          const Index rows = y[i].extent(1) / ranks_;
          return y[i].slice(1, peer * rows, rows);
        },
        [&](int peer, std::size_t i) {
          const Index heads = x[i].extent(2) / ranks_;
          return x[i].slice(2, peer * heads, heads);
        },
        Count);
  }

 private:
  // leaving(peer, i): what of tensor i goes to a rank; arriving(peer, i): where what comes from it goes.
  template <class Leaving, class Arriving>
  void all_to_all(const stream& s, Vector<float> scratch, Leaving&& leaving, Arriving&& arriving,
                  std::size_t count) const {
    Index block = 0;
    for (std::size_t i = 0; i < count; ++i) block += leaving(0, i).size();
    const Vector<float> sent = scratch.slice(0, 0, ranks_ * block);
    const Vector<float> received = scratch.slice(0, ranks_ * block, ranks_ * block);
    const auto piece = [&](Vector<float> all, int peer, Index offset, View<const float, 4> like) {
      return View<float, 4>(all.data() + peer * block + offset, like.extents());
    };

    std::vector<Message> messages;
    for (int peer = 0; peer < ranks_; ++peer) {
      Index offset = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const View<const float, 4> part = leaving(peer, i);
        if (peer == place_) {
          copy(s, part, arriving(peer, i));
        } else {
          copy(s, part, piece(sent, peer, offset, part));
        }
        offset += part.size();
      }
      if (peer == place_) continue;
      messages.push_back(Message::send(first_ + peer, sent.slice(0, peer * block, block)));
      messages.push_back(Message::receive(first_ + peer, received.slice(0, peer * block, block)));
    }
    group_->exchange(s, messages).wait(s);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == place_) continue;
      Index offset = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const View<float, 4> part = arriving(peer, i);
        copy(s, View<const float, 4>(piece(received, peer, offset, part)), part);
        offset += part.size();
      }
    }
  }

  C* group_;
  int ranks_;
  int place_;
  int first_;
};

}  // namespace trilith::inline v0
