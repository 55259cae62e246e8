// Ring attention: every rank keeps its queries, and blocks of keys and values travel around the ring (Liu,
// Zaharia, Abbeel, arXiv:2310.01889).
//
// Forward, a block goes to the next rank on each of P − 1 hops, while it is computed on: two buffers. The
// last block stays. Backward, the ring runs the other way from there: P − 1 hops of keys and values end with
// every rank's own, and the gradients of a block follow it, gathering what each rank adds, until they reach
// its owner. Keys and values travel as they are, their gradients in float32, and dq gathers over the hops in
// float32. Sums are made in the order of the hops, so results repeat bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <trilith/attention/hop_ranges.hpp>
#include <trilith/attention/key_values.hpp>
#include <trilith/comm/communicator.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/device.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0 {

// This rank's neighbours in the ring, as ranks of the group.
struct RingPlace {
  int next;
  int previous;
};

// T: the element of queries, keys and values.
template <device D, communicator C, class T>
class RingAttention {
 public:
  using stream = typename D::stream;

  // What backward needs of forward: the block where it was left.
  struct Saved {
    Vector<T> key_values;
  };

  // Used within one call.
  struct Scratch {
    ops::AttentionCarry carry;  // backward, its `out` is dq's
    std::array<Vector<T>, 2> key_values;
    std::array<Vector<float>, 2> gradients;  // of keys and values: what this rank adds
    Vector<float> arriving;                  // gradients from the rank before
    Vector<std::int32_t> room;               // for attention_backward
  };

  // `ranges` and `group` must outlive it.
  RingAttention(const HopRanges<D>& ranges, C& group, RingPlace place)
      : ranges_(&ranges), group_(&group), place_(place) {}

  Saved saved(Arena& arena, const KeyValueShape& shape) const {
    if (hops() == 1) return {};
    return {.key_values = arena.take<T>(shape.elements())};
  }

  // heads: of the queries.
  Scratch scratch(Arena& arena, const KeyValueShape& shape, Index heads) const {
    Scratch scratch;
    scratch.room = arena.take<std::int32_t>(ops::attention_backward_room(shape.rows));
    if (hops() == 1) return scratch;
    scratch.carry = {.out = arena.take<float>(shape.batch, shape.rows, heads, shape.dimension),
                     .maximum = arena.take<float>(shape.batch, heads, shape.rows),
                     .sum = arena.take<float>(shape.batch, heads, shape.rows)};
    for (Vector<T>& block : scratch.key_values) block = arena.take<T>(shape.elements());
    for (Vector<float>& block : scratch.gradients) block = arena.take<float>(shape.elements());
    scratch.arriving = arena.take<float>(shape.elements());
    return scratch;
  }

  // out: as q; lse: (batch, heads, rows).
  void forward(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
               View<T, 4> out, View<float, 3> lse, const Saved& saved, const Scratch& scratch) const {
    if (hops() == 1) return attention(s, x.q, x.k, x.v, settings, ranges_->of(0), out, lse);
    const KeyValueShape shape = x.key_values();
    // So that the last block ends where it is to stay.
    Vector<T> present = hops() % 2 == 1 ? saved.key_values : scratch.key_values[0];
    Vector<T> arriving = hops() % 2 == 1 ? scratch.key_values[0] : saved.key_values;
    copy(s, x.k, shape.keys(present));
    copy(s, x.v, shape.values(present));
    for (int hop = 0; hop < hops(); ++hop) {
      const bool last = hop == hops() - 1;
      auto transfer = last ? typename C::handle() : shift(s, place_.next, present, place_.previous, arriving);
      if (hop == 0 || last || ranges_->scores(hop) > 0) {
        attention(s, x.q, View<const T, 4>(shape.keys(present)), View<const T, 4>(shape.values(present)),
                  settings, ranges_->of(hop), ops::Hop{.first = hop == 0, .last = last}, scratch.carry, out,
                  lse);
      }
      transfer.wait(s);
      if (!last) std::swap(present, arriving);
    }
  }

  // dx is overwritten. delta: the row sums of d_out · out.
  void backward(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
                View<const float, 3> lse, View<const float, 3> delta, View<const T, 4> d_out,
                const Projections<T>& dx, const Saved& saved, const Scratch& scratch) const {
    if (hops() == 1) {
      return attention_backward(s, x.q, x.k, x.v, lse, delta, d_out, settings, ranges_->of(0), ops::Hop{},
                                View<float, 4>(), dx.q, dx.k, dx.v, scratch.room);
    }
    const KeyValueShape shape = x.key_values();
    Vector<T> present = saved.key_values;
    Vector<T> arriving = scratch.key_values[0];
    Vector<T> spare = scratch.key_values[1];
    typename C::handle gradients;
    for (int hop = 0; hop < hops(); ++hop) {
      const bool last = hop == hops() - 1;
      auto transfer = last ? typename C::handle() : shift(s, place_.previous, present, place_.next, arriving);
      const Vector<float> own = scratch.gradients[static_cast<std::size_t>(hop % 2)];
      const int forward_hop = hops() - 1 - hop;
      if (hop == 0 || last || ranges_->scores(forward_hop) > 0) {
        attention_backward(s, x.q, View<const T, 4>(shape.keys(present)),
                           View<const T, 4>(shape.values(present)), lse, delta, d_out, settings,
                           ranges_->of(forward_hop), ops::Hop{.first = hop == 0, .last = last},
                           scratch.carry.out, dx.q, shape.keys(own), shape.values(own), scratch.room);
      } else {
        fill(s, own, 0.0f);
      }
      if (hop > 0) {
        gradients.wait(s);
        add(s, Vector<const float>(scratch.arriving), own);
      }
      if (!last) gradients = shift(s, place_.previous, own, place_.next, scratch.arriving);
      transfer.wait(s);
      if (hop == 0) {  // what forward has saved is left alone
        present = std::exchange(arriving, spare);
      } else {
        std::swap(present, arriving);
      }
      if (last) {
        copy(s, View<const float, 4>(shape.keys(own)), dx.k);
        copy(s, View<const float, 4>(shape.values(own)), dx.v);
      }
    }
  }

 private:
  int hops() const { return ranges_->hops(); }

  template <class Element>
  typename C::handle shift(const stream& s, int to, Vector<Element> leaving, int from,
                           Vector<Element> arriving) const {
    const std::array messages{Message::send(to, leaving), Message::receive(from, arriving)};
    return group_->exchange(s, messages);
  }

  const HopRanges<D>* ranges_;
  C* group_;
  RingPlace place_;
};

}  // namespace trilith::inline v0
