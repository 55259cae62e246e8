// Which of one rank's keys the queries of a rank see: a block of scores, the work of one hop of a ring.
//
// Keys are rows of the rank that holds them, not positions. Since its rows ascend in position, the keys that
// a query sees are an interval of rows, whose two ends never fall from one query row to the next. The rows of
// queries and of keys may be those of one rank, of two, or of the gathered sequence, and the two sequences
// may have different lengths: those of the mask, but for padding. Padding sees nothing and is not seen.
#pragma once

#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/mask/split.hpp>

namespace trilith::inline v0 {

// The rows of `keys` that row `row` of `queries` sees.
template <class QuerySplit, class KeySplit>
constexpr KeyInterval key_range(const BoundMask& mask, const LocalRows<QuerySplit>& queries,
                                const LocalRows<KeySplit>& keys, Index row) {
  const KeyInterval seen = mask.keys_of(queries.position(row));
  return {keys.below(seen.first), keys.below(seen.last)};
}

// first(i) and last(i), overwritten: the interval of row i of `queries`, for every row.
template <class QuerySplit, class KeySplit>
constexpr void key_ranges(const BoundMask& mask, const LocalRows<QuerySplit>& queries,
                          const LocalRows<KeySplit>& keys, Vector<std::int32_t> first,
                          Vector<std::int32_t> last) {
  for (Index row = 0; row < queries.size(); ++row) {
    const KeyInterval range = key_range(mask, queries, keys, row);
    first(row) = static_cast<std::int32_t>(range.first);
    last(row) = static_cast<std::int32_t>(range.last);
  }
}

// How many pairs of a query and a key the block has that are not masked: none where a hop has nothing to
// compute.
template <class QuerySplit, class KeySplit>
constexpr Index visible_scores(const BoundMask& mask, const LocalRows<QuerySplit>& queries,
                               const LocalRows<KeySplit>& keys) {
  Index scores = 0;
  for (Index row = 0; row < queries.size(); ++row) scores += key_range(mask, queries, keys, row).size();
  return scores;
}

}  // namespace trilith::inline v0
