// All-gather attention: every rank keeps its queries and gathers all keys and values before it computes;
// backward it gathers them again, and the gradients of each rank's are summed on their owner. One collective
// each way instead of P − 1 hops, for memory that holds the whole sequence's keys and values.
#pragma once

#include <cstdint>

#include <trilith/attention/hop_ranges.hpp>
#include <trilith/attention/key_values.hpp>
#include <trilith/comm/communicator.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/device.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0 {

// T: the element of queries, keys and values. Gradients are summed in float32.
template <device D, communicator C, class T>
class AllGatherAttention {
 public:
  using stream = typename D::stream;

  struct Saved {};

  struct Scratch {
    ops::AttentionCarry carry;    // backward, its `out` is dq's
    Vector<T> own;                // this rank's keys and values
    Vector<T> all;                // of every rank, in order of rank
    Vector<float> own_gradients;  // of the keys and values
    Vector<float> all_gradients;
    Vector<std::int32_t> room;  // for attention_backward
  };

  // `ranges` and `group` must outlive it.
  AllGatherAttention(const HopRanges<D>& ranges, C& group) : ranges_(&ranges), group_(&group) {}

  Saved saved(Arena& /*arena*/, const KeyValueShape& /*shape*/) const { return {}; }

  Scratch scratch(Arena& arena, const KeyValueShape& shape, Index heads) const {
    return {.carry = {.out = arena.take<float>(shape.batch, shape.rows, heads, shape.dimension),
                      .maximum = arena.take<float>(shape.batch, heads, shape.rows),
                      .sum = arena.take<float>(shape.batch, heads, shape.rows)},
            .own = arena.take<T>(shape.elements()),
            .all = arena.take<T>(group_->size() * shape.elements()),
            .own_gradients = arena.take<float>(shape.elements()),
            .all_gradients = arena.take<float>(group_->size() * shape.elements()),
            .room = arena.take<std::int32_t>(ops::attention_backward_room(shape.rows))};
  }

  void forward(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
               View<T, 4> out, View<float, 3> lse, const Saved& /*saved*/, const Scratch& scratch) const {
    const KeyValueShape shape = x.key_values();
    gather(s, x, scratch);
    for (int hop = 0; hop < hops(); ++hop) {
      const Vector<T> block = block_of(scratch.all, hop, shape);
      attention(s, x.q, View<const T, 4>(shape.keys(block)), View<const T, 4>(shape.values(block)), settings,
                ranges_->of(hop), ops::Hop{.first = hop == 0, .last = hop == hops() - 1}, scratch.carry, out,
                lse);
    }
  }

  void backward(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
                View<const float, 3> lse, View<const float, 3> delta, View<const T, 4> d_out,
                const Projections<T>& dx, const Saved& /*saved*/, const Scratch& scratch) const {
    const KeyValueShape shape = x.key_values();
    gather(s, x, scratch);
    for (int hop = 0; hop < hops(); ++hop) {
      const Vector<T> block = block_of(scratch.all, hop, shape);
      const Vector<float> gradients = block_of(scratch.all_gradients, hop, shape);
      attention_backward(s, x.q, View<const T, 4>(shape.keys(block)), View<const T, 4>(shape.values(block)),
                         lse, delta, d_out, settings, ranges_->of(hop),
                         ops::Hop{.first = hop == 0, .last = hop == hops() - 1}, scratch.carry.out, dx.q,
                         shape.keys(gradients), shape.values(gradients), scratch.room);
    }
    group_->reduce_scatter(s, Vector<const float>(scratch.all_gradients), scratch.own_gradients).wait(s);
    copy(s, View<const float, 4>(shape.keys(scratch.own_gradients)), dx.k);
    copy(s, View<const float, 4>(shape.values(scratch.own_gradients)), dx.v);
  }

 private:
  int hops() const { return ranges_->hops(); }

  void gather(const stream& s, const Projections<const T>& x, const Scratch& scratch) const {
    const KeyValueShape shape = x.key_values();
    copy(s, x.k, shape.keys(scratch.own));
    copy(s, x.v, shape.values(scratch.own));
    group_->all_gather(s, Vector<const T>(scratch.own), scratch.all).wait(s);
  }

  // The block that the ranges of `hop` are of.
  template <class Element>
  Vector<Element> block_of(Vector<Element> all, int hop, const KeyValueShape& shape) const {
    const int owner = (group_->rank() - hop + group_->size()) % group_->size();
    return all.slice(0, owner * shape.elements(), shape.elements());
  }

  const HopRanges<D>* ranges_;
  C* group_;
};

}  // namespace trilith::inline v0
