// Attention by kernels: out = softmax(scale · q kᵀ) v for each head, in 16-bit elements.
//
// Shapes and meaning as in ops/host/attention.hpp, but q, k, v and out have elements of 16 bits, of which
// every row begins at a multiple of 16 bytes, and dimension is a multiple of 8, 256 at most. lse and the
// carry are float32. Products of 16 bits are added in float32; weights are rounded to 16 bits before they
// meet the values. Keys and values after the last that a query sees may be no numbers, here and in the
// backward pass; all others must be finite, also those that no query sees.
#pragma once

#include <type_traits>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/attention_forward.hpp>
#include <trilith/kernels/attention_tile.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention_views.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// One hop: the keys k and values v, of which the queries see `ranges`. A hop that is not the first goes on
// from `carry`; one that is not the last leaves it, and out and lse alone.
template <kernel_stream S, half T>
void attention(const S& stream, View<const std::type_identity_t<T>, 4> q,
               View<const std::type_identity_t<T>, 4> k, View<const std::type_identity_t<T>, 4> v,
               const AttentionSettings& settings, const KeyRanges& ranges, Hop hop,
               const AttentionCarry& carry, View<T, 4> out, View<float, 3> lse) {
  detail::require_attention_inputs<T>(q, k, v, out, settings);
  if (q.size() == 0) return;
  const auto with_constants = [&](auto width, auto mask, auto hop_carry) {
    constexpr auto tile = kernels::attention_forward_tile(kernels::architecture, width(), mask());
    using Kernel = kernels::AttentionForward<T, tile, hop_carry()>;
    stream.launch(Kernel{}, detail::head_grid(q, tile.rows),
                  {.q = detail::head_tensor(q),
                   .k = detail::head_tensor(k),
                   .v = detail::head_tensor(v),
                   .out = detail::head_tensor(out),
                   .lse = detail::per_query(lse),
                   .carry_out = detail::head_tensor(carry.out),
                   .carry_maximum = detail::per_query(carry.maximum),
                   .carry_sum = detail::per_query(carry.sum),
                   .visible = detail::visible_pairs<mask()>(ranges),
                   .sinks = detail::span_of(settings.sinks),
                   .queries = static_cast<int>(q.extent(1)),
                   .dimension = static_cast<int>(q.extent(3)),
                   .group = static_cast<int>(q.extent(2) / k.extent(2)),
                   .scale = kernels::ScoreScale::of(settings.scale, settings.soft_cap),
                   .first_hop = hop.first,
                   .last_hop = hop.last});
  };
  detail::with_attention_width<S, T>(q.extent(3), [&](auto width) {
    detail::with_hop_mask(ranges, q.extent(1), k.extent(1), [&](auto mask) {
      detail::with_hop_carry(hop, [&](auto hop_carry) { with_constants(width, mask, hop_carry); });
    });
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
