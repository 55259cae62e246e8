// Sums gradients over the data (and context) ranks, bucket by bucket, each as soon as its last weight
// gradient is there and never before.
#pragma once

#include <algorithm>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

template <communicator C>
class GradientReducer {
 public:
  using stream = typename C::stream;

  struct Range {
    Index first = 0;
    Index last = 0;
  };

  // Buckets are ranges of at most `bucket` elements. What lies in `apart` (a tied table, which waits for
  // another stage) is left to the caller.
  GradientReducer(C& group, Vector<float> gradients, Range apart, Index bucket)
      : group_(&group), gradients_(gradients) {
    const auto cut = [&](Index first, Index last) {
      for (Index begin = first; begin < last; begin += bucket) {
        buckets_.push_back({.first = begin, .last = std::min(begin + bucket, last)});
      }
    };
    cut(0, apart.first);
    cut(apart.last, gradients.size());
  }

  // A new step: no gradient is final.
  void begin() {
    for (Bucket& bucket : buckets_) bucket.missing = bucket.last - bucket.first;
  }

  // Gradients [first, last) are final on this rank: each exactly once a step, in the same order on all ranks
  // of the group.
  void final(const stream& s, Index first, Index last) {
    if (group_->size() == 1) return;
    for (Bucket& bucket : buckets_) {
      const Index overlap = std::min(last, bucket.last) - std::max(first, bucket.first);
      if (overlap <= 0) continue;
      bucket.missing -= overlap;
      if (bucket.missing == 0) {
        const Vector<float> part = gradients_.slice(0, bucket.first, bucket.last - bucket.first);
        bucket.handle = group_->all_reduce(s, part);
      }
    }
  }

  // Returns when every bucket is reduced.
  void finish(const stream& s) {
    for (Bucket& bucket : buckets_) bucket.handle.wait(s);
  }

 private:
  struct Bucket {
    Index first = 0;
    Index last = 0;
    Index missing = 0;  // elements not final yet
    typename C::handle handle = {};
  };

  C* group_;
  Vector<float> gradients_;
  std::vector<Bucket> buckets_;
};

}  // namespace trilith::inline v0
