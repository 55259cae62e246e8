// Which keys a query sees, by their positions in the whole sequence, whatever rank holds them.
//
// Every mask lets a query see one interval of keys, whose two ends never fall as the query's position rises.
// Intersections keep that, and so do ranks that hold their rows in ascending order: two numbers a query say
// everything (mask/key_ranges.hpp), and the queries that see a key are an interval too.
//
// Queries and keys are aligned at the bottom right: of nq queries and nk keys, query i stands at key
// i + nk − nq, so the last query stands at the last key. In a mask with documents that holds in each of them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

// Keys [first, last); none where last == first.
struct KeyInterval {
  Index first = 0;
  Index last = 0;
  friend constexpr bool operator==(const KeyInterval&, const KeyInterval&) = default;

  constexpr Index size() const { return last - first; }
  constexpr bool contains(Index key) const { return first <= key && key < last; }
};

// Where one document ends and the next begins.
struct DocumentBoundary {
  Index query = 0;
  Index key = 0;
  friend constexpr auto operator<=>(const DocumentBoundary&, const DocumentBoundary&) = default;
  friend constexpr bool operator==(const DocumentBoundary&, const DocumentBoundary&) = default;  // for nvcc
};

// A mask over a given number of queries and keys.
class BoundMask {
 public:
  constexpr Index queries() const { return boundaries_.back().query; }
  constexpr Index keys() const { return boundaries_.back().key; }

  // For query ≥ 0, in O(log documents): 0 ≤ first ≤ last ≤ keys(), neither ever falling. Queries beyond the
  // last are padding and see no key.
  constexpr KeyInterval keys_of(Index query) const {
    const auto end = std::upper_bound(boundaries_.begin(), boundaries_.end(), query,
                                      [](Index q, const DocumentBoundary& b) { return q < b.query; });
    if (end == boundaries_.end()) return {keys(), keys()};
    const Index first_key = std::prev(end)->key;
    const Index own = end->key - (end->query - query);
    return {std::clamp(own - left_, first_key, end->key), std::clamp(own + right_ + 1, first_key, end->key)};
  }

  constexpr bool sees(Index query, Index key) const { return keys_of(query).contains(key); }

 private:
  friend class Mask;
  // No query stands farther from a key than the lengths together, so a longer reach than that, which might
  // overflow, is the same.
  constexpr BoundMask(std::vector<DocumentBoundary> boundaries, Index left, Index right)
      : boundaries_(std::move(boundaries)),
        left_(std::min(left, queries() + keys())),
        right_(std::min(right, queries() + keys())) {}

  std::vector<DocumentBoundary> boundaries_;  // from {0, 0} to {queries, keys}
  Index left_;
  Index right_;
};

class Mask;

namespace mask {

// As a side of a window: every key.
inline constexpr Index unlimited = std::numeric_limits<Index>::max();

// Every key.
constexpr Mask full();
// The key where the query stands, and those before.
constexpr Mask causal();
// The key where the query stands, `left` before it and `right` after it.
constexpr Mask sliding_window(Index left, Index right = 0);
// The keys of the query's own document, of several packed into one sequence. Cumulative lengths: 0, the end
// of the first document, …, the whole length.
constexpr Mask documents(const std::vector<Index>& cumulative);
// The same with lists of their own for queries and for keys, a document in the same place of both.
constexpr Mask documents(const std::vector<Index>& query_cumulative,
                         const std::vector<Index>& key_cumulative);

}  // namespace mask

// Made by the functions above and by &, the intersection. Masks that differ only in how they are written,
// such as causal() and sliding_window(unlimited), are equal.
class Mask {
 public:
  friend constexpr bool operator==(const Mask&, const Mask&) = default;

  // What both see; windows are aligned in each document of the result. Documents are cut at the boundaries of
  // both, where queries and keys have the same ones. Those with lists of their own meet only their equals,
  // because a cut would align their queries and keys anew.
  friend constexpr Mask operator&(const Mask& a, const Mask& b) {
    return {std::min(a.left_, b.left_), std::min(a.right_, b.right_), meet(a.boundaries_, b.boundaries_)};
  }

  // The mask over these lengths. Throws where they are not those of its documents.
  constexpr BoundMask of(Index queries, Index keys) const {
    if (queries < 0 || keys < 0) {
      throw Error("attention over " + counted(queries, keys), "lengths are 0 or more");
    }
    if (boundaries_.empty()) return {{{0, 0}, {queries, keys}}, left_, right_};
    const auto [last_query, last_key] = boundaries_.back();
    if (last_query != queries || last_key != keys) {
      throw Error("documents end after " + counted(last_query, last_key) + ", but attention is over " +
                      counted(queries, keys),
                  "the cumulative lengths of documents end with that of the sequence");
    }
    return {boundaries_, left_, right_};
  }

 private:
  friend constexpr Mask mask::full();
  friend constexpr Mask mask::causal();
  friend constexpr Mask mask::sliding_window(Index left, Index right);
  friend constexpr Mask mask::documents(const std::vector<Index>& query_cumulative,
                                        const std::vector<Index>& key_cumulative);
  using Boundaries = std::vector<DocumentBoundary>;

  constexpr Mask(Index left, Index right, Boundaries boundaries)
      : left_(left), right_(right), boundaries_(std::move(boundaries)) {}

  static constexpr Boundaries meet(const Boundaries& a, const Boundaries& b) {
    if (a.empty() || a == b) return b;
    if (b.empty()) return a;
    const auto same = [](const DocumentBoundary& x) { return x.query == x.key; };
    if (!std::all_of(a.begin(), a.end(), same) || !std::all_of(b.begin(), b.end(), same)) {
      throw Error("documents whose queries and keys have different lengths meet other documents",
                  "give the cumulative lengths of what both see to one mask::documents");
    }
    if (a.back() != b.back()) {
      throw Error("documents of " + std::to_string(a.back().key) + " positions meet documents of " +
                      std::to_string(b.back().key),
                  "masks that are intersected are masks of the same sequence");
    }
    Boundaries both;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
  }

  static std::string counted(Index queries, Index keys) {
    return std::to_string(queries) + " queries and " + std::to_string(keys) + " keys";
  }

  Index left_;
  Index right_;
  Boundaries boundaries_;  // ascending, from {0, 0} on; none if there are no documents
};

namespace mask {

constexpr Mask full() {
  return {unlimited, unlimited, {}};
}

constexpr Mask causal() {
  return {unlimited, 0, {}};
}

constexpr Mask sliding_window(Index left, Index right) {
  if (left < 0 || right < 0) {
    throw Error("a sliding window of " + std::to_string(left) + " keys before the query's own and " +
                    std::to_string(right) + " after it",
                "give 0 or more for either side; mask::unlimited means every key");
  }
  return {left, right, {}};
}

constexpr Mask documents(const std::vector<Index>& query_cumulative,
                         const std::vector<Index>& key_cumulative) {
  for (const std::vector<Index>* list : {&query_cumulative, &key_cumulative}) {
    constexpr const char* remedy = "begin with 0 and add the length of each document in turn";
    if (list->empty() || list->front() != 0) {
      throw Error("the cumulative lengths of documents do not begin with 0", remedy);
    }
    const auto fall = std::adjacent_find(list->begin(), list->end(), [](Index a, Index b) { return a > b; });
    if (fall != list->end()) {
      throw Error("the cumulative lengths of documents fall from " + std::to_string(fall[0]) + " to " +
                      std::to_string(fall[1]),
                  remedy);
    }
  }
  if (query_cumulative.size() != key_cumulative.size()) {
    throw Error("the queries come in " + std::to_string(query_cumulative.size() - 1) +
                    " documents and the keys in " + std::to_string(key_cumulative.size() - 1),
                "give every document a length of queries and one of keys, 0 where it has none");
  }
  std::vector<DocumentBoundary> boundaries;
  for (std::size_t i = 0; i < query_cumulative.size(); ++i) {
    const DocumentBoundary boundary{query_cumulative[i], key_cumulative[i]};
    // A document without queries and keys changes nothing, and masks that see the same are to be equal.
    if (boundaries.empty() || boundaries.back() != boundary) boundaries.push_back(boundary);
  }
  return {unlimited, unlimited, std::move(boundaries)};
}

constexpr Mask documents(const std::vector<Index>& cumulative) {
  return documents(cumulative, cumulative);
}

}  // namespace mask

}  // namespace trilith::inline v0
