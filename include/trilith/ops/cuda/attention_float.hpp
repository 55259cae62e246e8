// Attention in float32 on streams that run kernels; see ops/host/attention.hpp.
#pragma once

#include <cstdint>

#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/attention_backward_float.hpp>
#include <trilith/kernels/attention_float_tile.hpp>
#include <trilith/kernels/attention_forward_float.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention_views.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

// One hop; heads have at most 256 elements.
template <kernel_stream S>
void attention(const S& stream, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
               const AttentionSettings& settings, const KeyRanges& ranges, Hop hop,
               const AttentionCarry& carry, View<float, 4> out, View<float, 3> lse) {
  if (q.size() == 0) return;
  detail::with_attention_width<S, float>(q.extent(3), [&](auto width) {
    stream.launch(kernels::AttentionForwardFloat<width()>{},
                  detail::head_grid(q, kernels::FloatAttention::own),
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
                   .settings = {settings.scale, settings.soft_cap},
                   .first_hop = hop.first,
                   .last_hop = hop.last});
  });
}

// All keys at once.
template <kernel_stream S>
void attention(const S& stream, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
               const AttentionSettings& settings, const KeyRanges& ranges, View<float, 4> out,
               View<float, 3> lse) {
  attention(stream, q, k, v, settings, ranges, Hop{}, AttentionCarry{}, out, lse);
}

// delta = the row sums of d_out · out.
template <kernel_stream S>
void attention_delta(const S& stream, View<const float, 4> out, View<const float, 4> d_out,
                     View<float, 3> delta) {
  if (out.size() == 0) return;
  stream.launch(kernels::AttentionDeltaFloat{}, detail::head_grid(out, kernels::FloatAttention::own),
                {.out = detail::head_tensor(out),
                 .d_out = detail::head_tensor(d_out),
                 .delta = detail::per_query(delta),
                 .queries = static_cast<int>(out.extent(1)),
                 .dimension = static_cast<int>(out.extent(3))});
}

// One hop. dq gathers over the hops in the carry, or in itself where there is none. The room is for others.
template <kernel_stream S>
void attention_backward(const S& stream, View<const float, 4> q, View<const float, 4> k,
                        View<const float, 4> v, View<const float, 3> lse, View<const float, 3> delta,
                        View<const float, 4> d_out, const AttentionSettings& settings,
                        const KeyRanges& ranges, Hop hop, View<float, 4> dq_carry, View<float, 4> dq,
                        View<float, 4> dk, View<float, 4> dv, Vector<std::int32_t> /*room*/ = {}) {
  if (q.size() == 0 && k.size() == 0) return;
  const View<float, 4> between = dq_carry.data() == nullptr ? dq : dq_carry;
  const kernels::AttentionBackwardFloatParams params{
      .q = detail::head_tensor(q),
      .k = detail::head_tensor(k),
      .v = detail::head_tensor(v),
      .d_out = detail::head_tensor(d_out),
      .lse = detail::per_query(lse),
      .delta = detail::per_query(delta),
      .dq_from = hop.first ? kernels::HeadTensor<float>{} : detail::head_tensor(between),
      .dq_to = detail::head_tensor(hop.last ? dq : between),
      .dk = detail::head_tensor(dk),
      .dv = detail::head_tensor(dv),
      .ranges = detail::key_ranges(ranges),
      .queries = static_cast<int>(q.extent(1)),
      .keys = static_cast<int>(k.extent(1)),
      .dimension = static_cast<int>(q.extent(3)),
      .group = static_cast<int>(q.extent(2) / k.extent(2)),
      .settings = {settings.scale, settings.soft_cap}};
  detail::with_attention_width<S, float>(q.extent(3), [&](auto width) {
    if (q.size() > 0) {
      stream.launch(kernels::AttentionBackwardQueriesFloat<width()>{},
                    detail::head_grid(q, kernels::FloatAttention::own), params);
    }
    if (k.size() > 0) {
      stream.launch(kernels::AttentionBackwardKeysFloat<width()>{},
                    detail::head_grid(k, kernels::FloatAttention::own), params);
    }
  });
}

}  // namespace trilith::inline v0::ops
