// Masks as intervals: they are the naive predicates, intersections are an algebra, and what does not fit is
// refused.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/mask/mask.hpp>

#include "test/mask/naive.hpp"
#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::Cumulative;
using test::error_of;
using test::NaiveMask;

constexpr Index unlimited = mask::unlimited;

// The intervals are those of the predicate, lie among the keys, and their ends never fall.
void expect_same(const NaiveMask& naive, Index queries, Index keys) {
  SCOPED_TRACE(naive.name + ", " + std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
  const BoundMask bound = naive.mask.of(queries, keys);
  ASSERT_EQ(bound.queries(), queries);
  ASSERT_EQ(bound.keys(), keys);
  KeyInterval before{0, 0};
  for (Index query = 0; query < queries; ++query) {
    const KeyInterval seen = bound.keys_of(query);
    ASSERT_LE(before.first, seen.first) << "query " << query;
    ASSERT_LE(before.last, seen.last) << "query " << query;
    ASSERT_LE(seen.first, seen.last) << "query " << query;
    ASSERT_LE(seen.last, keys) << "query " << query;
    for (Index key = 0; key < keys; ++key) {
      ASSERT_EQ(seen.contains(key), naive.sees(query, key)) << "query " << query << ", key " << key;
      ASSERT_EQ(bound.sees(query, key), naive.sees(query, key)) << "query " << query << ", key " << key;
    }
    before = seen;
  }
}

TEST(Mask, IsItsPredicateForQueriesAndKeysOfAnyLengths) {
  for (Index queries = 0; queries <= 12; ++queries) {
    for (Index keys = 0; keys <= 12; ++keys) {
      const std::vector<NaiveMask> windows = test::naive_windows(queries, keys);
      for (const NaiveMask& a : windows) {
        expect_same(a, queries, keys);
        for (const NaiveMask& b : windows) expect_same(a & b, queries, keys);
      }
    }
  }
}

TEST(Mask, IsItsPredicateWithDocuments) {
  for (Index length = 0; length <= 20; ++length) {
    for (const NaiveMask& naive : test::naive_masks(length)) expect_same(naive, length, length);
  }
}

// All ways of cutting a sequence into documents, by the bits of a number.
std::vector<NaiveMask> all_documents(Index length) {
  std::vector<NaiveMask> all;
  for (int cuts = 0; cuts < 1 << (length - 1); ++cuts) {
    Cumulative cumulative{0};
    for (Index position = 1; position < length; ++position) {
      if (cuts >> (position - 1) & 1) cumulative.push_back(position);
    }
    cumulative.push_back(length);
    all.push_back(test::naive_documents(cumulative));
  }
  return all;
}

TEST(Mask, DocumentsMeetAsDocumentsCutAtTheBoundariesOfBoth) {
  const NaiveMask causal = test::naive_windows(6, 6)[1];
  for (const NaiveMask& a : all_documents(6)) {
    for (const NaiveMask& b : all_documents(6)) {
      expect_same(a & b, 6, 6);
      expect_same(causal & a & b, 6, 6);
    }
  }
  EXPECT_EQ(mask::documents({0, 2, 8}) & mask::documents({0, 5, 8}), mask::documents({0, 2, 5, 8}));
}

// Documents of nq queries and nk keys, each aligned at its own bottom right.
TEST(Mask, AlignsEachDocumentAtItsBottomRight) {
  for (Index q0 = 0; q0 <= 4; ++q0) {
    for (Index k0 = 0; k0 <= 4; ++k0) {
      for (Index q1 = 0; q1 <= 4; ++q1) {
        for (Index k1 = 0; k1 <= 4; ++k1) {
          for (const NaiveMask& first : test::naive_windows(q0, k0)) {
            const Mask documents = mask::documents({0, q0, q0 + q1}, {0, k0, k0 + k1});
            const std::vector<NaiveMask> second = test::naive_windows(q1, k1);
            const auto same_kind = [&](const NaiveMask& x) { return x.name == first.name; };
            const auto& last = *std::find_if(second.begin(), second.end(), same_kind);
            expect_same({first.name + " & documents", documents & first.mask,
                         [&](Index query, Index key) {
                           if (query < q0 && key < k0) return first.sees(query, key);
                           return query >= q0 && key >= k0 && last.sees(query - q0, key - k0);
                         }},
                        q0 + q1, k0 + k1);
          }
        }
      }
    }
  }
}

TEST(Mask, TheQueriesThatSeeAKeyAreAnInterval) {
  for (const NaiveMask& naive : test::naive_masks(13)) {
    const BoundMask bound = naive.mask.of(13, 13);
    for (Index key = 0; key < 13; ++key) {
      int changes = 0;  // from not seeing to seeing, and back
      for (Index query = 0; query <= 13; ++query) {
        changes += bound.sees(query, key) != (query > 0 && bound.sees(query - 1, key)) ? 1 : 0;
      }
      EXPECT_LE(changes, 2) << naive.name << ", key " << key;
    }
  }
}

TEST(Mask, OfFewQueriesTheLastSeesEveryKey) {
  constexpr auto keys_of = [](Index query) { return mask::causal().of(2, 5).keys_of(query); };
  static_assert(keys_of(0) == KeyInterval{0, 4});
  static_assert(keys_of(1) == KeyInterval{0, 5});
}

TEST(Mask, OfFewKeysTheFirstQueriesSeeNone) {
  constexpr auto keys_of = [](Index query) { return mask::causal().of(5, 2).keys_of(query); };
  static_assert(keys_of(0).size() == 0 && keys_of(1).size() == 0 && keys_of(2).size() == 0);
  static_assert(keys_of(3) == KeyInterval{0, 1});
  static_assert(keys_of(4) == KeyInterval{0, 2});
}

// Three documents with one key each: under a causal mask only the last query of each sees it.
TEST(Mask, DocumentsOfOneKeyAreSeenByTheirLastQuery) {
  const Mask documents = mask::documents({0, 76, 110, 256}, {0, 1, 2, 3});
  const BoundMask causal = (documents & mask::causal()).of(256, 3);
  const BoundMask full = documents.of(256, 3);
  for (Index query = 0; query < 256; ++query) {
    const Index document = query < 76 ? 0 : query < 110 ? 1 : 2;
    EXPECT_EQ(full.keys_of(query), (KeyInterval{document, document + 1})) << "query " << query;
    const bool last = query == 75 || query == 109 || query == 255;
    EXPECT_EQ(causal.keys_of(query).size(), last ? 1 : 0) << "query " << query;
    EXPECT_EQ(causal.sees(query, document), last) << "query " << query;
  }
}

TEST(Mask, QueriesBeyondTheLastSeeNoKey) {
  for (const Mask& mask :
       {mask::full(), mask::causal(), mask::documents({0, 3, 7}), mask::documents({0, 7})}) {
    const BoundMask bound = mask.of(7, 7);
    EXPECT_EQ(bound.keys_of(7), (KeyInterval{7, 7}));
    EXPECT_EQ(bound.keys_of(1000), (KeyInterval{7, 7}));
  }
}

TEST(Mask, LongReachesDoNotOverflow) {
  constexpr Index far = Index{1} << 40;
  static_assert(mask::full().of(far, 1).keys_of(0) == KeyInterval{0, 1});
  static_assert(mask::sliding_window(unlimited - 1, unlimited - 1).of(1, far).keys_of(0) ==
                KeyInterval{0, far});
  static_assert(mask::sliding_window(0, unlimited).of(far, far).keys_of(far - 1) ==
                KeyInterval{far - 1, far});
}

TEST(Mask, IntersectionIsCommutativeAssociativeAndIdempotent) {
  std::vector<Mask> masks;
  for (const NaiveMask& naive : test::naive_masks(12)) masks.push_back(naive.mask);
  for (const Mask& a : masks) {
    EXPECT_EQ(a & a, a);
    EXPECT_EQ(a & mask::full(), a);
    EXPECT_EQ(mask::full() & a, a);
    for (const Mask& b : masks) {
      EXPECT_EQ(a & b, b & a);
      for (const Mask& c : masks) ASSERT_EQ((a & b) & c, a & (b & c));
    }
  }
}

TEST(Mask, DocumentsWithListsOfTheirOwnKeepTheAlgebra) {
  const Mask documents = mask::documents({0, 4, 9}, {0, 2, 3});
  EXPECT_EQ(documents & documents, documents);
  EXPECT_EQ(documents & mask::full(), documents);
  EXPECT_EQ(documents & mask::causal(), mask::causal() & documents);
  EXPECT_EQ((documents & mask::causal()) & (documents & mask::sliding_window(2, 1)),
            documents & (mask::causal() & mask::sliding_window(2, 1)));
}

TEST(Mask, HasOneValueHoweverItIsWritten) {
  static_assert(mask::sliding_window(unlimited) == mask::causal());
  static_assert(mask::sliding_window(unlimited, unlimited) == mask::full());
  static_assert((mask::causal() & mask::sliding_window(3, 5)) == mask::sliding_window(3));
  EXPECT_EQ(mask::documents({0, 2, 5}, {0, 2, 5}), mask::documents({0, 2, 5}));
  EXPECT_EQ(mask::documents({0, 0, 2, 2, 5, 5}), mask::documents({0, 2, 5}));
  EXPECT_NE(mask::documents({0, 2, 5}), mask::documents({0, 3, 5}));
  EXPECT_NE(mask::causal(), mask::full());
}

TEST(Mask, RefusesWindowsOfNegativeWidth) {
  EXPECT_EQ(error_of([] { mask::sliding_window(-1); }),
            "a sliding window of -1 keys before the query's own and 0 after it; give 0 or more for either "
            "side; mask::unlimited means every key");
  EXPECT_NE(error_of([] { mask::sliding_window(4, -1); }), "");
}

TEST(Mask, RefusesDocumentsThatAreNoCumulativeLengths) {
  const std::string begin =
      "the cumulative lengths of documents do not begin with 0; begin with 0 and add the length of each "
      "document in turn";
  EXPECT_EQ(error_of([] { mask::documents(Cumulative{}); }), begin);
  EXPECT_EQ(error_of([] { mask::documents({4, 8}); }), begin);
  EXPECT_EQ(error_of([] { mask::documents({0, 8}, {4, 8}); }), begin);
  EXPECT_EQ(error_of([] {
              mask::documents({0, 5, 3, 8});
            }),
            "the cumulative lengths of documents fall from 5 to 3; begin with 0 and add the length of each "
            "document in turn");
  EXPECT_EQ(error_of([] {
              mask::documents({0, 4, 8}, {0, 8});
            }),
            "the queries come in 2 documents and the keys in 1; give every document a length of queries and "
            "one of keys, 0 where it has none");
}

TEST(Mask, RefusesLengthsThatAreNotThoseOfItsDocuments) {
  const Mask documents = mask::documents({0, 3, 8});
  EXPECT_EQ(error_of([&] { documents.of(9, 9); }),
            "documents end after 8 queries and 8 keys, but attention is over 9 queries and 9 keys; the "
            "cumulative lengths of documents end with that of the sequence");
  EXPECT_NE(error_of([&] { documents.of(8, 9); }), "");
  EXPECT_NE(error_of([&] { documents.of(7, 8); }), "");
  EXPECT_EQ(error_of([] { mask::full().of(-1, 4); }),
            "attention over -1 queries and 4 keys; lengths are 0 or more");
  EXPECT_NE(error_of([] { mask::full().of(4, -1); }), "");
}

TEST(Mask, RefusesDocumentsThatDoNotMeet) {
  EXPECT_EQ(error_of([] {
              mask::documents({0, 3, 8}) & mask::documents({0, 3, 9});
            }),
            "documents of 8 positions meet documents of 9; masks that are intersected are masks of "
            "the same sequence");
  const std::string lists =
      "documents whose queries and keys have different lengths meet other documents; give the cumulative "
      "lengths of what both see to one mask::documents";
  const Mask own = mask::documents({0, 3, 8}, {0, 1, 8});
  EXPECT_EQ(error_of([&] { own& mask::documents({0, 3, 8}, {0, 2, 8}); }), lists);
  EXPECT_EQ(error_of([&] { own& mask::documents({0, 3, 8}); }), lists);
  EXPECT_EQ(error_of([&] { mask::documents({0, 3, 8}) & own; }), lists);
}

}  // namespace
}  // namespace trilith
