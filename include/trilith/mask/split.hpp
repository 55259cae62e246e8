// How a sequence is split over the ranks of the context axis.
//
// Every rank holds the same number of rows, in ascending order of their positions; every position lies on one
// rank. Under a causal mask a late query has more work than an early one, so how evenly the ranks work is up
// to the split. Where the length does not divide, rows may be padded: their positions come after the
// sequence, so as queries they see no key (BoundMask::keys_of), and as keys they lie beyond what any query
// sees.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

// What a split supplies, all of it constexpr, for a `length` that its rule allows:
//   name                                      for messages
//   rule                                      what a length must be, for messages
//   multiple(ranks)                           the same as a number: what divides the length
//   position(rank, row, ranks, length)        of row 0 … length / ranks − 1 of the rank; ascends by row, and
//                                             reaches each of 0 … length − 1 exactly once over all ranks
//   rows_below(rank, position, ranks, length) how many rows of the rank have a position below 0 … length
template <class S>
concept sequence_split = requires(int rank, int ranks, Index row, Index position, Index length) {
  { S::name } -> std::convertible_to<const char*>;
  { S::rule } -> std::convertible_to<const char*>;
  { S::multiple(ranks) } -> std::same_as<Index>;
  { S::position(rank, row, ranks, length) } -> std::same_as<Index>;
  { S::rows_below(rank, position, ranks, length) } -> std::same_as<Index>;
};

// Rank r holds the r-th of P parts. Under a causal mask the last rank does almost twice the average work.
struct Contiguous {
  static constexpr const char* name = "Contiguous";
  static constexpr const char* rule = "sequence length must be divisible by CP";

  static constexpr Index multiple(int ranks) { return ranks; }

  static constexpr Index position(int rank, Index row, int ranks, Index length) {
    return rank * (length / ranks) + row;
  }

  static constexpr Index rows_below(int rank, Index position, int ranks, Index length) {
    const Index rows = length / ranks;
    return std::clamp<Index>(position - rank * rows, 0, rows);
  }
};

// Rank r holds the parts r and 2P − 1 − r of 2P, an early one and a late one (as Llama 3 was trained,
// arXiv:2407.21783, section 3.3.2). Under a causal mask all ranks do the same work on each hop of a ring:
// with parts of n rows, 2n² + n scores with their own keys and 2n² with those of any other rank.
struct Zigzag {
  static constexpr const char* name = "Zigzag";
  static constexpr const char* rule = "sequence length must be divisible by 2 * CP to balance a causal mask";

  // One rank holds everything and has nothing to balance.
  static constexpr Index multiple(int ranks) { return ranks == 1 ? 1 : 2 * Index{ranks}; }

  static constexpr Index position(int rank, Index row, int ranks, Index length) {
    const Index part = length / ranks / 2;
    return row < part ? rank * part + row : late(rank, ranks, part) + row - part;
  }

  static constexpr Index rows_below(int rank, Index position, int ranks, Index length) {
    const Index rows = length / ranks;
    const Index part = rows / 2;
    return std::clamp<Index>(position - rank * part, 0, part) +
           std::clamp<Index>(position - late(rank, ranks, part), 0, rows - part);
  }

 private:
  static constexpr Index late(int rank, int ranks, Index part) {
    return (2 * Index{ranks} - 1 - rank) * part;
  }
};

// Rank r holds every P-th position, from r on (Brandon et al., "Striped attention", arXiv:2311.09431). Under
// a causal mask the ranks' work differs by one score a row at most on each hop of a ring.
struct Striped {
  static constexpr const char* name = "Striped";
  static constexpr const char* rule = "sequence length must be divisible by CP";

  static constexpr Index multiple(int ranks) { return ranks; }

  static constexpr Index position(int rank, Index row, int ranks, Index /*length*/) {
    return row * ranks + rank;
  }

  static constexpr Index rows_below(int rank, Index position, int ranks, Index /*length*/) {
    return (position - rank + ranks - 1) / ranks;
  }
};

// The rows that one rank holds, as ascending positions of the whole sequence.
template <class Split>
class LocalRows {
 public:
  constexpr LocalRows(int rank, int ranks, Index length) : rank_(rank), ranks_(ranks), length_(length) {}

  constexpr Index size() const { return length_ / ranks_; }
  constexpr Index position(Index row) const { return Split::position(rank_, row, ranks_, length_); }

  // How many of them have a position below, for 0 ≤ position ≤ the padded length.
  constexpr Index below(Index position) const { return Split::rows_below(rank_, position, ranks_, length_); }

 private:
  int rank_;
  int ranks_;
  Index length_;
};

// Positions in a sequence of `length`, one for each row: −1 where a row is padding.
template <class Split>
std::vector<std::int32_t> positions_of(const LocalRows<Split>& rows, Index length) {
  std::vector<std::int32_t> positions;
  for (Index row = 0; row < rows.size(); ++row) {
    const Index position = rows.position(row);
    positions.push_back(position < length ? static_cast<std::int32_t>(position) : -1);
  }
  return positions;
}

// Whether a sequence is made longer where its split asks for that.
enum class Padding : bool { no, yes };

// A sequence of `length` positions over `ranks` ranks. Throws where the split's rule is broken and no padding
// allowed.
template <class Split>
class SequenceSplit {
  static_assert(
      sequence_split<Split>,
      "SequenceSplit<S>: S must be a split such as Contiguous, Zigzag or Striped: a type with name, "
      "rule, multiple, position and rows_below (see mask/split.hpp)");

 public:
  constexpr SequenceSplit(Index length, int ranks, Padding padding = Padding::no)
      : length_(length), ranks_(ranks) {
    constexpr Index most = std::numeric_limits<std::int32_t>::max();  // rows are counted in 32 bits
    if (length < 0 || length > most || ranks < 1) {
      throw Error(
          "a sequence of " + std::to_string(length) + " positions over " + std::to_string(ranks) + " ranks",
          "a sequence has 0 to 2^31 - 1 positions, on at least one rank");
    }
    const Index multiple = Split::multiple(ranks);
    const Index less = length / multiple * multiple;
    padded_ = less == length ? length : less + multiple;
    if (padded_ != length && padding == Padding::no) {
      throw Error(std::string(Split::name) + ": " + Split::rule + "; it is " + std::to_string(length) +
                      " and CP is " + std::to_string(ranks),
                  "take " + (less == 0 ? "" : std::to_string(less) + " or ") + std::to_string(padded_) +
                      ", or allow padding");
    }
    if (padded_ > most) {
      throw Error(
          "a sequence of " + std::to_string(length) + " positions is padded to " + std::to_string(padded_),
          "a padded sequence has at most 2^31 - 1 positions");
    }
  }

  constexpr Index length() const { return length_; }  // without padding
  constexpr Index padded() const { return padded_; }
  constexpr int ranks() const { return ranks_; }
  constexpr Index rows() const { return padded_ / ranks_; }  // of each rank

  constexpr LocalRows<Split> rows_of(int rank) const { return {rank, ranks_, padded_}; }

 private:
  Index length_;
  Index padded_ = 0;
  int ranks_;
};

}  // namespace trilith::inline v0
