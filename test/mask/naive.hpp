// Masks beside predicates that say the same of one query and one key, written out without intervals.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <trilith/mask/mask.hpp>

namespace trilith::test {

using Cumulative = std::vector<Index>;

struct NaiveMask {
  std::string name;
  Mask mask;
  std::function<bool(Index query, Index key)> sees;
};

inline NaiveMask operator&(const NaiveMask& a, const NaiveMask& b) {
  return {a.name + " & " + b.name, a.mask & b.mask,
          [a, b](Index query, Index key) { return a.sees(query, key) && b.sees(query, key); }};
}

// The document that holds a position.
inline Index document_of(const Cumulative& cumulative, Index position) {
  Index document = 0;
  while (position >= cumulative[document + 1]) ++document;
  return document;
}

inline NaiveMask naive_documents(const Cumulative& cumulative) {
  std::string name = "documents";
  for (const Index end : cumulative) name += " " + std::to_string(end);
  return {name, mask::documents(cumulative), [cumulative](Index query, Index key) {
            return document_of(cumulative, query) == document_of(cumulative, key);
          }};
}

// Masks without documents, over any lengths.
inline std::vector<NaiveMask> naive_windows(Index queries, Index keys) {
  const Index shift = keys - queries;
  std::vector<NaiveMask> all{
      {"full", mask::full(), [](Index, Index) { return true; }},
      {"causal", mask::causal(), [shift](Index query, Index key) { return key <= query + shift; }},
      {"not causal", mask::sliding_window(mask::unlimited, mask::unlimited),
       [](Index, Index) { return true; }},
      {"keys from the query's own on", mask::sliding_window(0, mask::unlimited),
       [shift](Index query, Index key) { return key >= query + shift; }},
  };
  for (const Index left : {0, 1, 3, 9}) {
    for (const Index right : {0, 2}) {
      all.push_back({"window " + std::to_string(left) + " " + std::to_string(right),
                     mask::sliding_window(left, right), [shift, left, right](Index query, Index key) {
                       const Index distance = key - (query + shift);
                       return -left <= distance && distance <= right;
                     }});
    }
  }
  return all;
}

// Masks of all kinds and their intersections, over `length` queries and as many keys.
inline std::vector<NaiveMask> naive_masks(Index length) {
  std::vector<NaiveMask> all = naive_windows(length, length);
  all.push_back(naive_documents({0, length}));
  all.push_back(naive_documents({0, length / 2, length}));
  all.push_back(naive_documents({0, 0, length / 3, length / 3, 2 * length / 3, length, length}));
  Cumulative each;
  for (Index position = 0; position <= length; ++position) each.push_back(position);
  all.push_back(naive_documents(each));
  const std::size_t kinds = all.size();
  for (std::size_t i = 0; i < kinds; ++i) {
    for (std::size_t j = i + 1; j < kinds; ++j) all.push_back(all[i] & all[j]);
  }
  return all;
}

}  // namespace trilith::test
