// Attention<Kind, Split>: how a query meets the keys of the other ranks of the context axis, and which rows
// of the sequence a rank holds.
//
// | policy                        | keys and values travel          | costs                               |
// | Attention<Local>              | not at all: CP is 1             | nothing                             |
// | Attention<Ring, S>            | from rank to rank, CP − 1 hops  | hidden behind the computation       |
// | Attention<Ulysses>            | heads are exchanged for rows    | CP divides the key/value heads      |
// | Attention<AllGatherKv, S>     | to all ranks at once            | memory for the whole sequence       |
// | Attention<Hybrid<U>, S>       | Ulysses among U ranks, a ring over CP / U such groups                 |
//
// S: Contiguous unless given, Zigzag or Striped (mask/split.hpp).
#pragma once

#include <algorithm>
#include <concepts>

#include <trilith/core/tensor.hpp>
#include <trilith/mask/split.hpp>

namespace trilith::inline v0 {

struct Local {};
struct Ring {};
struct Ulysses {};
struct AllGatherKv {};
template <int U>
struct Hybrid {
  static_assert(U > 0, "Attention<Hybrid<U>>: the Ulysses groups have at least one rank");
};

namespace detail {

inline constexpr bool is_attention_kind(...) {
  return false;
}
inline constexpr bool is_attention_kind(Local) {
  return true;
}
inline constexpr bool is_attention_kind(Ring) {
  return true;
}
inline constexpr bool is_attention_kind(Ulysses) {
  return true;
}
inline constexpr bool is_attention_kind(AllGatherKv) {
  return true;
}
template <int U>
constexpr bool is_attention_kind(Hybrid<U>) {
  return true;
}

// Ranks that exchange heads for rows.
constexpr int head_ranks(Local, int /*context_ranks*/) {
  return 1;
}
constexpr int head_ranks(Ring, int /*context_ranks*/) {
  return 1;
}
constexpr int head_ranks(AllGatherKv, int /*context_ranks*/) {
  return 1;
}
constexpr int head_ranks(Ulysses, int context_ranks) {
  return context_ranks;
}
template <int U>
constexpr int head_ranks(Hybrid<U>, int /*context_ranks*/) {
  return U;
}

}  // namespace detail

template <class Kind, class Split = Contiguous>
struct Attention;

struct AttentionCategory {
  using default_policy = Attention<Local>;
};

namespace detail {

// The rows of a rank of the context axis: those that `Outer` gives to its place in the ring lie contiguously
// on the ranks that exchange heads for rows.
template <class Kind, class Outer>
struct ContextSplit {
  static constexpr const char* name = Outer::name;
  static constexpr const char* rule = Outer::rule;

  static constexpr Index multiple(int ranks) {
    const int inner = head_ranks(Kind{}, ranks);
    return Outer::multiple(ranks / inner) * inner;
  }

  static constexpr Index position(int rank, Index row, int ranks, Index length) {
    const int inner = head_ranks(Kind{}, ranks);
    return Outer::position(rank / inner, rank % inner * (length / ranks) + row, ranks / inner, length);
  }

  static constexpr Index rows_below(int rank, Index position, int ranks, Index length) {
    const int inner = head_ranks(Kind{}, ranks);
    const Index rows = length / ranks;
    const Index of_ring = Outer::rows_below(rank / inner, position, ranks / inner, length);
    return std::clamp<Index>(of_ring - rank % inner * rows, 0, rows);
  }
};

}  // namespace detail

template <class Kind, class Split>
struct Attention {
  static_assert(detail::is_attention_kind(Kind{}),
                "Attention<Kind, Split>: Kind is Local, Ring, Ulysses, AllGatherKv or Hybrid<U>");
  static_assert(sequence_split<Split>,
                "Attention<Kind, Split>: Split is Contiguous, Zigzag or Striped, or a split of your own (see "
                "mask/split.hpp)");
  static_assert(!(std::same_as<Kind, Local> || std::same_as<Kind, Ulysses>) ||
                    std::same_as<Split, Contiguous>,
                "Attention<Local> and Attention<Ulysses> give every query its whole sequence: leave out the "
                "split");
  using category = AttentionCategory;
  using kind = Kind;
  using ring_split = Split;                         // over the places in the ring
  using split = detail::ContextSplit<Kind, Split>;  // over all ranks of the context axis

  static constexpr bool gathers = std::same_as<Kind, AllGatherKv>;

  // Ranks that exchange heads for rows: neighbours on the context axis.
  static constexpr int head_ranks(int context_ranks) { return detail::head_ranks(Kind{}, context_ranks); }

  static constexpr bool fits(int context_ranks) {
    return (!std::same_as<Kind, Local> || context_ranks == 1) &&
           context_ranks % head_ranks(context_ranks) == 0;
  }
};

}  // namespace trilith::inline v0
