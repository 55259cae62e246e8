// Attention over a sequence that is split over the ranks of the context axis: exact, forward and backward,
// for every Attention<…> policy. It needs a group of ranks and nothing else of the library:
//
//     ContextAttention<Attention<Ring, Zigzag>, Host, ThreadCommunicator> attention(
//         {.sequence = 4096, .heads = 12, .kv_heads = 4, .dimension = 64}, mask::causal(), group, memory,
//         stream);
//     auto [allocation, room] = allocate_planned<Host>(memory, [&](Arena& arena) {
//       return std::pair(attention.saved(arena, batch), attention.scratch(arena, batch));
//     });
//     attention.forward(stream, settings, {q, k, v}, out, lse, room.first, room.second);
//     attention.backward(stream, settings, {q, k, v}, out, lse, d_out, {dq, dk, dv}, room.first,
//     room.second);
//
// A call's hops, their copies, kernels and transfers, run on a stream of the attention's own, forked off the
// caller's and joined at the end: between begin_backward() and the join of what it returns, work that the
// caller gives to its own stream runs beside them.
//
// Queries, keys and values are float, or the type of a fourth argument. Every rank of the group makes the
// same calls. A rank holds the rows that rows() gives, ascending; masks are over positions of the whole
// sequence. Where rows are padded, what they hold is finite, and what comes out for them is of no use.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <trilith/attention/all_gather.hpp>
#include <trilith/attention/arguments.hpp>
#include <trilith/attention/head_exchange.hpp>
#include <trilith/attention/hop_ranges.hpp>
#include <trilith/attention/key_values.hpp>
#include <trilith/attention/policy.hpp>
#include <trilith/attention/ring.hpp>
#include <trilith/comm/communicator.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/device.hpp>
#include <trilith/device/side_stream.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0 {

// What all ranks of a context group have together; of one tensor rank.
struct AttentionShape {
  Index sequence;
  Index heads;      // of queries
  Index kv_heads;   // of keys and values; divides heads
  Index dimension;  // of a head
  Padding padding = Padding::no;
};

template <class Policy, device D, communicator C, class T = float>
class ContextAttention {
 public:
  using stream = typename D::stream;
  using Split = typename Policy::split;
  using RingSplit = typename Policy::ring_split;
  using Core = std::conditional_t<Policy::gathers, AllGatherAttention<D, C, T>, RingAttention<D, C, T>>;

  // From forward to backward.
  struct Saved {
    typename Core::Saved core;
    // With heads exchanged for rows: (batch, U · rows, heads / U, dimension).
    Projections<T> x = {};
    View<T, 4> out = {};
    View<float, 3> lse = {};  // (batch, heads / U, U · rows)
  };

  // Used within one call; may be shared by all calls of one ContextAttention, even before they are joined:
  // its stream runs them one after the other.
  struct Scratch {
    typename Core::Scratch core;
    View<float, 3> delta;             // (batch, heads / U, U · rows)
    Vector<std::byte> messages = {};  // with heads exchanged for rows, as the following
    View<T, 4> d_out = {};            // (batch, U · rows, heads / U, dimension)
    Projections<T> dx = {};           // the same
  };

  // `group` and `memory` must outlive it. Throws where the shape cannot be split over the group. `s`: of the
  // place where it is to run.
  ContextAttention(const AttentionShape& shape, const Mask& mask, C& group, typename D::memory& memory,
                   const stream& s)
      : shape_(checked(shape, group.size())),
        split_(shape.sequence, group.size(), shape.padding),
        rank_(group.rank()),
        exchange_(group, Policy::head_ranks(group.size())),
        ranges_(s, memory, mask.of(shape.sequence, shape.sequence), blocks()),
        core_(make_core(group)),
        side_(s) {}
  ContextAttention(const ContextAttention&) = delete;  // its parts refer to each other
  ContextAttention& operator=(const ContextAttention&) = delete;

  const AttentionShape& shape() const { return shape_; }

  // The rows of this rank, and of each.
  const SequenceSplit<Split>& split() const { return split_; }
  LocalRows<Split> rows() const { return split_.rows_of(rank_); }

  // Of this rank, by hop: pairs of a query and a key that the mask leaves.
  const HopRanges<D>& ranges() const { return ranges_; }

  Saved saved(Arena& arena, Index batch) const {
    Saved saved{.core = core_.saved(arena, key_values(batch))};
    if (exchanges()) {
      saved.x = projections(arena, batch);
      saved.out = heads_of(arena, batch, shape_.heads);
      saved.lse = per_query(arena, batch);
    }
    return saved;
  }

  Scratch scratch(Arena& arena, Index batch) const {
    Scratch scratch{.core = core_.scratch(arena, key_values(batch), shape_.heads / exchange_.ranks()),
                    .delta = per_query(arena, batch)};
    if (exchanges()) {
      const Index elements = (shape_.heads + 2 * shape_.kv_heads) * shape_.dimension;
      constexpr Index size = sizeof(T);
      const Index row = std::max(elements * size, shape_.heads * (shape_.dimension * size + float_size));
      scratch.messages = arena.take<std::byte>(exchange_.scratch_bytes(batch * split_.rows() * row));
      scratch.d_out = heads_of(arena, batch, shape_.heads);
      scratch.dx = projections(arena, batch);
    }
    return scratch;
  }

  // x and out: (batch, rows, heads or kv_heads, dimension); lse: (batch, heads, rows). settings.sinks: of all
  // heads.
  void forward(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
               View<T, 4> out, View<float, 3> lse, const Saved& saved, const Scratch& scratch) const {
    check_arguments(settings, x, out, lse);
    SideWork<stream> hops = side_.fork(s);
    forward_on(hops.stream(), settings, x, out, lse, saved, scratch);
    hops.join();
  }

  // out and lse are those of forward, with its `saved`. dx is overwritten. Where there are sinks, d_sinks:
  // (heads) gets what this rank's queries give, overwritten or added to as `into_sinks` says: to be summed
  // over the group.
  void backward(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
                View<const T, 4> out, View<const float, 3> lse, View<const T, 4> d_out,
                const Projections<T>& dx, const Saved& saved, const Scratch& scratch,
                Vector<float> d_sinks = {}, Accumulate into_sinks = Accumulate::no) const {
    begin_backward(s, settings, x, out, lse, d_out, dx, saved, scratch, d_sinks, into_sinks).join();
  }

  // The same, to be joined by the caller. Until then nobody writes what it reads, nor touches what it writes.
  SideWork<stream> begin_backward(const stream& s, const ops::AttentionSettings& settings,
                                  const Projections<const T>& x, View<const T, 4> out,
                                  View<const float, 3> lse, View<const T, 4> d_out, const Projections<T>& dx,
                                  const Saved& saved, const Scratch& scratch, Vector<float> d_sinks = {},
                                  Accumulate into_sinks = Accumulate::no) const {
    check_arguments(settings, x, out, lse);
    check_projections({"dq", "dk", "dv"}, dx, x.q.extent(0));
    detail::check_extents("d_out", d_out, out.extents());
    if (settings.has_sinks()) detail::check_extents("d_sinks", d_sinks, {shape_.heads});
    SideWork<stream> hops = side_.fork(s);
    backward_on(hops.stream(), settings, x, out, lse, d_out, dx, saved, scratch, d_sinks, into_sinks);
    return hops;
  }

 private:
  static AttentionShape checked(const AttentionShape& shape, int ranks) {
    require(Policy::fits(ranks),
            "Attention<...> cannot be split over " + std::to_string(ranks) + " context ranks",
            "Attention<Local> takes one; with Attention<Hybrid<U>> U divides CP");
    require(shape.heads > 0 && shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0 && shape.dimension > 0,
            "attention of " + numbers(shape),
            "heads must be a multiple of key/value heads, dimension positive");
    require(ops::attention_takes_heads_of<stream, T>(shape.dimension),
            "attention of " + numbers(shape) + " on a device that runs kernels",
            "the dimension must be 256 at most, and in 16 bits a multiple of 8");
    const int exchanged = Policy::head_ranks(ranks);
    require(
        shape.heads % exchanged == 0 && shape.kv_heads % exchanged == 0,
        "attention of " + numbers(shape) + " cannot exchange heads for rows among " +
            std::to_string(exchanged) + " ranks",
        "heads and key/value heads must be multiples of U (Attention<Hybrid<U>>) or CP (Attention<Ulysses>); "
        "Attention<Ring> has no such condition");
    return shape;
  }

  void check_arguments(const ops::AttentionSettings& settings, const Projections<const T>& x,
                       View<const T, 4> out, View<const float, 3> lse) const {
    const Index batch = x.q.extent(0);
    detail::check_settings(settings, shape_.heads);
    check_projections({"q", "k", "v"}, x, batch);
    detail::check_extents("out", out, {batch, split_.rows(), shape_.heads, shape_.dimension});
    detail::check_extents("lse", lse, {batch, shape_.heads, split_.rows()});
  }

  void check_projections(const std::array<const char*, 3>& names, const Projections<const T>& x,
                         Index batch) const {
    const std::array<Index, 4> keys{batch, split_.rows(), shape_.kv_heads, shape_.dimension};
    detail::check_extents(names[0], x.q, {batch, split_.rows(), shape_.heads, shape_.dimension});
    detail::check_extents(names[1], x.k, keys);
    detail::check_extents(names[2], x.v, keys);
  }

  static std::string numbers(const AttentionShape& shape) {
    return std::to_string(shape.heads) + " heads with " + std::to_string(shape.kv_heads) +
           " key/value heads of dimension " + std::to_string(shape.dimension);
  }

  bool exchanges() const { return exchange_.ranks() > 1; }

  // The keys that this rank meets, by hop: its own, then those of the rank before, ….
  std::vector<LocalRows<RingSplit>> blocks() const {
    const int places = split_.ranks() / exchange_.ranks();
    const int place = rank_ / exchange_.ranks();
    std::vector<LocalRows<RingSplit>> blocks;
    for (int hop = 0; hop < places; ++hop) {
      blocks.emplace_back((place - hop + places) % places, places, split_.padded());
    }
    return blocks;
  }

  Core make_core(C& group) const {
    if constexpr (Policy::gathers) {
      return Core(ranges_, group);
    } else {
      const int ranks = group.size();
      return Core(ranges_, group,
                  {.next = (rank_ + exchange_.ranks()) % ranks,
                   .previous = (rank_ - exchange_.ranks() + ranks) % ranks});
    }
  }

  // What is computed on: all rows of the ranks that exchange heads, and this rank's share of the heads.
  Index core_rows() const { return exchange_.ranks() * split_.rows(); }
  KeyValueShape key_values(Index batch) const {
    return {batch, core_rows(), shape_.kv_heads / exchange_.ranks(), shape_.dimension};
  }
  View<T, 4> heads_of(Arena& arena, Index batch, Index heads) const {
    return arena.take<T>(batch, core_rows(), heads / exchange_.ranks(), shape_.dimension);
  }
  View<float, 3> per_query(Arena& arena, Index batch) const {
    return arena.take<float>(batch, shape_.heads / exchange_.ranks(), core_rows());
  }
  Projections<T> projections(Arena& arena, Index batch) const {
    return {heads_of(arena, batch, shape_.heads), heads_of(arena, batch, shape_.kv_heads),
            heads_of(arena, batch, shape_.kv_heads)};
  }

  // (batch, heads, rows) as (batch, rows, heads, 1).
  static View<float, 4> as_heads(View<float, 3> x) {
    return {x.data(), {x.extent(0), x.extent(2), x.extent(1), 1}, {x.stride(0), x.stride(2), x.stride(1), 1}};
  }

  ops::AttentionSettings of_own_heads(ops::AttentionSettings settings) const {
    const Index heads = shape_.heads / exchange_.ranks();
    if (settings.has_sinks()) settings.sinks = settings.sinks.slice(0, exchange_.place() * heads, heads);
    return settings;
  }

  void forward_on(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
                  View<T, 4> out, View<float, 3> lse, const Saved& saved, const Scratch& scratch) const {
    if (!exchanges()) return core_.forward(s, settings, x, out, lse, saved.core, scratch.core);
    exchange_.to_heads(s, scratch.messages, Exchanged<T>{x.q, saved.x.q}, Exchanged<T>{x.k, saved.x.k},
                       Exchanged<T>{x.v, saved.x.v});
    core_.forward(s, of_own_heads(settings), saved.x, saved.out, saved.lse, saved.core, scratch.core);
    exchange_.to_rows(s, scratch.messages, Exchanged<T>{saved.out, out},
                      Exchanged<float>{as_heads(saved.lse), as_heads(lse)});
  }

  void backward_on(const stream& s, const ops::AttentionSettings& settings, const Projections<const T>& x,
                   View<const T, 4> out, View<const float, 3> lse, View<const T, 4> d_out,
                   const Projections<T>& dx, const Saved& saved, const Scratch& scratch,
                   Vector<float> d_sinks, Accumulate into_sinks) const {
    if (!exchanges()) {
      return backward_of_heads(s, settings, x, out, lse, d_out, dx, saved, scratch, d_sinks, into_sinks);
    }
    exchange_.to_heads(s, scratch.messages, Exchanged<T>{d_out, scratch.d_out});
    const Index heads = shape_.heads / exchange_.ranks();
    Vector<float> own_sinks;
    if (settings.has_sinks()) {
      if (into_sinks == Accumulate::no) fill(s, d_sinks, 0.0f);
      own_sinks = d_sinks.slice(0, exchange_.place() * heads, heads);
    }
    backward_of_heads(s, of_own_heads(settings), saved.x, saved.out, saved.lse, scratch.d_out, scratch.dx,
                      saved, scratch, own_sinks, Accumulate::yes);
    exchange_.to_rows(s, scratch.messages, Exchanged<T>{scratch.dx.q, dx.q}, Exchanged<T>{scratch.dx.k, dx.k},
                      Exchanged<T>{scratch.dx.v, dx.v});
  }

  void backward_of_heads(const stream& s, const ops::AttentionSettings& settings,
                         const Projections<const T>& x, View<const T, 4> out, View<const float, 3> lse,
                         View<const T, 4> d_out, const Projections<T>& dx, const Saved& saved,
                         const Scratch& scratch, Vector<float> d_sinks, Accumulate into_sinks) const {
    attention_delta(s, out, d_out, scratch.delta);
    core_.backward(s, settings, x, lse, scratch.delta, d_out, dx, saved.core, scratch.core);
    if (settings.has_sinks()) {
      attention_sinks_backward(s, lse, scratch.delta, settings, into_sinks, d_sinks);
    }
  }

  static constexpr Index float_size = sizeof(float);  // of lse

  AttentionShape shape_;
  SequenceSplit<Split> split_;
  int rank_;
  HeadExchange<D, C> exchange_;
  HopRanges<D> ranges_;
  Core core_;
  // Of the hops. Nothing else touches the ranges, the scratch and what is saved, and it takes call after
  // call; all else is the caller's, whose stream it follows from fork to join. Memory is given back at rest.
  SideStream<stream> side_;
};

}  // namespace trilith::inline v0
