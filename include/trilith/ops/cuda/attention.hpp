// Attention by kernels: out = softmax(scale · q kᵀ) v for each head, in 16-bit elements.
//
// Shapes and meaning as in ops/host/attention.hpp, but q, k, v and out have elements of 16 bits, of which
// every row begins at a multiple of 16 bytes, and dimension is a multiple of 8, 256 at most. lse and the
// carry are float32. Products of 16 bits are added in float32; weights are rounded to 16 bits before they
// meet the values.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/attention_forward.hpp>
#include <trilith/kernels/attention_tile.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention_views.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// What the forward pass asks of its inputs besides what ops/host/attention.hpp does.
template <half T>
void require_attention_inputs(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                              View<const T, 4> out, const AttentionSettings& settings) {
  if (!rows_aligned<8>(q, k, v, out)) {
    throw Error("attention: a row does not begin at a multiple of 16 bytes",
                "give strides that are multiples of 8, and aligned memory");
  }
  if (!(settings.scale > 0)) {
    throw Error("attention: the scale of scores is " + std::to_string(settings.scale),
                "give a positive one, such as 1 / sqrt(dimension)");
  }
  // Rows, and those of tiles that go beyond them, are counted in 32 bits.
  constexpr Index most_rows = std::numeric_limits<std::int32_t>::max() - 1024;
  if (q.extent(1) > most_rows || k.extent(1) > most_rows) {
    throw Error("attention: a sequence has more than " + std::to_string(most_rows) + " rows",
                "split it over context ranks");
  }
  if (q.extent(0) > 65535 || q.extent(2) > 65535) {
    throw Error("attention: there are more than 65535 sequences or heads", "use a smaller batch");
  }
}

}  // namespace detail

// One hop: the keys k and values v, of which the queries see `ranges`. A hop that is not the first goes on
// from `carry`; one that is not the last leaves it, and out and lse alone.
template <kernel_stream S, half T>
void attention(const S& stream, View<const std::type_identity_t<T>, 4> q,
               View<const std::type_identity_t<T>, 4> k, View<const std::type_identity_t<T>, 4> v,
               const AttentionSettings& settings, const KeyRanges& ranges, Hop hop,
               const AttentionCarry& carry, View<T, 4> out, View<float, 3> lse) {
  detail::require_attention_inputs<T>(q, k, v, out, settings);
  if (q.size() == 0) return;
  detail::with_attention_width(q.extent(3), [&](auto width) {
    constexpr auto tile = kernels::attention_forward_tile(kernels::architecture, width());
    using Kernel = kernels::AttentionForward<T, tile>;
    stream.launch(Kernel{}, detail::head_grid(q, tile.rows),
                  {.q = detail::head_tensor(q),
                   .k = detail::head_tensor(k),
                   .v = detail::head_tensor(v),
                   .out = detail::head_tensor(out),
                   .lse = detail::per_query(lse),
                   .carry_out = detail::head_tensor(carry.out),
                   .carry_maximum = detail::per_query(carry.maximum),
                   .carry_sum = detail::per_query(carry.sum),
                   .ranges = detail::key_ranges(ranges),
                   .sinks = detail::span_of(settings.sinks),
                   .queries = static_cast<int>(q.extent(1)),
                   .dimension = static_cast<int>(q.extent(3)),
                   .group = static_cast<int>(q.extent(2) / k.extent(2)),
                   .scale = kernels::ScoreScale::of(settings.scale, settings.soft_cap),
                   .first_hop = hop.first,
                   .last_hop = hop.last});
  });
}

// All keys at once.
template <kernel_stream S, half T>
void attention(const S& stream, View<const std::type_identity_t<T>, 4> q,
               View<const std::type_identity_t<T>, 4> k, View<const std::type_identity_t<T>, 4> v,
               const AttentionSettings& settings, const KeyRanges& ranges, View<T, 4> out,
               View<float, 3> lse) {
  attention(stream, q, k, v, settings, ranges, Hop{}, AttentionCarry{}, out, lse);
}

}  // namespace trilith::inline v0::ops
