// How operations hand attention's views to kernels.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/hop_carry.hpp>
#include <trilith/kernels/hop_mask.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/launch.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::ops::detail {

template <class T>
kernels::PerQuery<T> per_query(View<T, 3> x) {
  return {span_of(x), x.stride(0), x.stride(1)};
}
inline kernels::KeyRanges key_ranges(const KeyRanges& ranges) {
  return {span_of(ranges.first), span_of(ranges.last)};
}
template <kernels::HopMask mask>
kernels::VisiblePairs<mask> visible_pairs(const KeyRanges& ranges) {
  if constexpr (mask == kernels::HopMask::rectangle) {
    const SeenRectangle& seen = *ranges.rectangle;
    return {{seen.first_query, seen.last_query}, {seen.first_key, seen.last_key}};
  } else {
    return key_ranges(ranges);
  }
}

// A block for each tile of rows of each head of x.
template <class T>
simt::Dim3 head_grid(View<T, 4> x, int rows) {
  return {static_cast<int>(ceil_divide(x.extent(1), rows)), static_cast<int>(x.extent(2)),
          static_cast<int>(x.extent(0))};
}

// Calls body(width) with the width of tiles that heads of T of this dimension take, as a constant.
template <kernel_stream S, class T, class Body>
void with_attention_width(Index dimension, Body&& body) {
  if (!attention_takes_heads_of<S, T>(dimension)) {
    throw Error("attention with heads of dimension " + std::to_string(dimension),
                "give 256 at most, and in 16 bits a multiple of 8");
  }
  if (dimension <= 64) return body(std::integral_constant<int, 64>{});
  if (dimension <= 128) return body(std::integral_constant<int, 128>{});
  body(std::integral_constant<int, 256>{});
}

// Calls body(carry) with the HopCarry that a hop takes, as a constant.
template <class Body>
void with_hop_carry(Hop hop, Body&& body) {
  using kernels::HopCarry;
  if (hop.first && hop.last) return body(std::integral_constant<HopCarry, HopCarry::none>{});
  body(std::integral_constant<HopCarry, HopCarry::memory>{});
}

// Calls body(mask) with the HopMask of what so many queries see of so many keys, as a constant.
template <class Body>
void with_hop_mask(const KeyRanges& ranges, Index queries, Index keys, Body&& body) {
  using kernels::HopMask;
  if (!ranges.rectangle) return body(std::integral_constant<HopMask, HopMask::intervals>{});
  const SeenRectangle& seen = *ranges.rectangle;
  if (seen.first_query < 0 || seen.last_query > queries || seen.first_key < 0 || seen.last_key > keys) {
    const auto part = [](std::int32_t first, std::int32_t last, Index count) {
      return "[" + std::to_string(first) + ", " + std::to_string(last) + ") of " + std::to_string(count);
    };
    throw Error("attention: queries " + part(seen.first_query, seen.last_query, queries) + " see keys " +
                    part(seen.first_key, seen.last_key, keys),
                "give the rectangle that ops::seen_rectangle() finds, or none");
  }
  body(std::integral_constant<HopMask, HopMask::rectangle>{});
}

template <class... V>
void require_aligned_rows(V... views) {
  if (!rows_aligned<8>(views...)) {
    throw Error("attention: a row does not begin at a multiple of 16 bytes",
                "give strides that are multiples of 8, and aligned memory");
  }
}

// What attention in 16 bits asks besides what ops/host/attention.hpp does. out: or its gradient.
template <half T>
void require_attention_inputs(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                              View<const T, 4> out, const AttentionSettings& settings) {
  require_aligned_rows(q, k, v, out);
  require_score_settings(settings);
  // Rows are counted in 32 bits, also those beyond the last that a tile has, or a stride of a warp's lanes
  // over tiles: 32 of 64 rows.
  constexpr Index most_rows = std::numeric_limits<std::int32_t>::max() - 4096;
  if (q.extent(1) > most_rows || k.extent(1) > most_rows) {
    throw Error("attention: a sequence has more than " + std::to_string(most_rows) + " rows",
                "split it over context ranks");
  }
  if (q.extent(0) > 65535 || q.extent(2) > 65535) {
    throw Error("attention: there are more than 65535 sequences or heads", "use a smaller batch");
  }
}

}  // namespace trilith::inline v0::ops::detail
