// All-gather attention: every rank keeps its queries and gathers all keys and values before it computes;
// backward it gathers them again, and the gradients of each rank's are summed on their owner. One collective
// each way instead of P − 1 hops, for memory that holds the whole sequence's keys and values.
#pragma once

#include <trilith/attention/hop_ranges.hpp>
#include <trilith/attention/key_values.hpp>
#include <trilith/comm/communicator.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/device.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0 {

template <device D, communicator C>
class AllGatherAttention {
 public:
  using stream = typename D::stream;

  struct Saved {};

  struct Scratch {
    ops::AttentionCarry carry;
    Vector<float> own;            // this rank's keys and values, or their gradients
    Vector<float> all;            // of every rank, in order of rank
    Vector<float> all_gradients;  // the same
  };

  // `ranges` and `group` must outlive it.
  AllGatherAttention(const HopRanges<D>& ranges, C& group) : ranges_(&ranges), group_(&group) {}

  Saved saved(Arena& /*arena*/, const KeyValueShape& /*shape*/) const { return {}; }

  Scratch scratch(Arena& arena, const KeyValueShape& shape, Index heads) const {
    return {.carry = {.out = arena.take<float>(shape.batch, shape.rows, heads, shape.dimension),
                      .maximum = arena.take<float>(shape.batch, heads, shape.rows),
                      .sum = arena.take<float>(shape.batch, heads, shape.rows)},
            .own = arena.take<float>(shape.elements()),
            .all = arena.take<float>(group_->size() * shape.elements()),
            .all_gradients = arena.take<float>(group_->size() * shape.elements())};
  }

  void forward(const stream& s, const ops::AttentionSettings& settings, const Projections<const float>& x,
               View<float, 4> out, View<float, 3> lse, const Saved& /*saved*/, const Scratch& scratch) const {
    const KeyValueShape shape = x.key_values();
    gather(s, x, scratch);
    for (int hop = 0; hop < hops(); ++hop) {
      const Vector<float> block = block_of(scratch.all, hop, shape);
      attention(s, x.q, View<const float, 4>(shape.keys(block)), View<const float, 4>(shape.values(block)),
                settings, ranges_->of(hop), ops::Hop{.first = hop == 0, .last = hop == hops() - 1},
                scratch.carry, out, lse);
    }
  }

  void backward(const stream& s, const ops::AttentionSettings& settings, const Projections<const float>& x,
                View<const float, 3> lse, View<const float, 3> delta, View<const float, 4> d_out,
                const Projections<float>& dx, const Saved& /*saved*/, const Scratch& scratch) const {
    const KeyValueShape shape = x.key_values();
    gather(s, x, scratch);
    for (int hop = 0; hop < hops(); ++hop) {
      const Vector<float> block = block_of(scratch.all, hop, shape);
      const Vector<float> gradients = block_of(scratch.all_gradients, hop, shape);
      attention_backward(s, x.q, View<const float, 4>(shape.keys(block)),
                         View<const float, 4>(shape.values(block)), lse, delta, d_out, settings,
                         ranges_->of(hop), hop == 0 ? Accumulate::no : Accumulate::yes, dx.q,
                         shape.keys(gradients), shape.values(gradients));
    }
    group_->reduce_scatter(s, Vector<const float>(scratch.all_gradients), scratch.own).wait(s);
    copy(s, View<const float, 4>(shape.keys(scratch.own)), dx.k);
    copy(s, View<const float, 4>(shape.values(scratch.own)), dx.v);
  }

 private:
  int hops() const { return ranges_->hops(); }

  void gather(const stream& s, const Projections<const float>& x, const Scratch& scratch) const {
    const KeyValueShape shape = x.key_values();
    copy(s, x.k, shape.keys(scratch.own));
    copy(s, x.v, shape.values(scratch.own));
    group_->all_gather(s, Vector<const float>(scratch.own), scratch.all).wait(s);
  }

  // The block that the ranges of `hop` are of.
  Vector<float> block_of(Vector<float> all, int hop, const KeyValueShape& shape) const {
    const int owner = (group_->rank() - hop + group_->size()) % group_->size();
    return all.slice(0, owner * shape.elements(), shape.elements());
  }

  const HopRanges<D>* ranges_;
  C* group_;
};

}  // namespace trilith::inline v0
