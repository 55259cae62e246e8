// What the queries of a rank see on each hop of a ring: the mask, cut into blocks of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/device.hpp>
#include <trilith/mask/key_ranges.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0 {

// They lie in device memory: 8 bytes for each position of the sequence, however many hops there are.
template <device D>
class HopRanges {
 public:
  // blocks: the rows of the keys of each hop; the first are the rank's own, and those of its queries.
  template <class Split>
  HopRanges(const typename D::stream& s, typename D::memory& memory, const BoundMask& mask,
            const std::vector<LocalRows<Split>>& blocks) {
    const LocalRows<Split>& queries = blocks.front();
    const Index rows = queries.size();
    auto [allocation, ranges] = allocate_planned<D>(
        memory, [&](Arena& arena) { return arena.take<std::int32_t>(2 * blocks.size(), rows); });
    allocation_ = std::move(allocation);
    ranges_ = ranges;
    std::vector<std::int32_t> host(static_cast<std::size_t>(2 * rows));
    const Vector<std::int32_t> first(host.data(), {rows});
    const Vector<std::int32_t> last(host.data() + rows, {rows});
    for (const LocalRows<Split>& keys : blocks) {
      key_ranges(mask, queries, keys, first, last);
      upload(s, host.data(), flat(ranges_.slice(0, 2 * hops(), 2)));
      rectangles_.push_back(ops::seen_rectangle(first, last));
      scores_.push_back(visible_scores(mask, queries, keys));
    }
  }

  int hops() const { return static_cast<int>(scores_.size()); }
  ops::KeyRanges of(int hop) const {
    return {ranges_[2 * hop], ranges_[2 * hop + 1], rectangles_[static_cast<std::size_t>(hop)]};
  }

  // Pairs of a query and a key that the mask leaves on a hop: none where there is nothing to compute.
  Index scores(int hop) const { return scores_[static_cast<std::size_t>(hop)]; }

 private:
  typename D::allocation allocation_;
  Matrix<std::int32_t> ranges_;  // (2 · hops, rows)
  std::vector<std::optional<ops::SeenRectangle>> rectangles_;
  std::vector<Index> scores_;
};

}  // namespace trilith::inline v0
