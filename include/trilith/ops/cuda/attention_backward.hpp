// The backward pass of attention in 16 bits, on streams that run kernels; see ops/host/attention.hpp.
//
// Every row of queries, keys, values and their gradients begins at a multiple of 16 bytes. lse, delta and
// what lies between hops are float32; dk and dv are float32 where they go on to other ranks, else what the
// inputs are. Results don't depend on the order of blocks, unless dq may be summed in any.
#pragma once

#include <cstdint>
#include <type_traits>

#include <trilith/core/error.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/attention_backward_keys.hpp>
#include <trilith/kernels/attention_backward_queries.hpp>
#include <trilith/kernels/attention_backward_tile.hpp>
#include <trilith/kernels/attention_delta.hpp>
#include <trilith/kernels/attention_sinks_backward.hpp>
#include <trilith/kernels/soft_cap.hpp>
#include <trilith/kernels/tile_ranges.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention_views.hpp>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/launch.hpp>

namespace trilith::inline v0::ops {

template <kernel_stream S, class E>
requires half<std::remove_const_t<E>>
void attention_delta(const S& stream, View<E, 4> out, View<const std::remove_const_t<E>, 4> d_out,
                     View<float, 3> delta) {
  using T = std::remove_const_t<E>;
  detail::require_aligned_rows(out, d_out);
  if (out.size() == 0) return;
  detail::with_attention_width<S, T>(out.extent(3), [&](auto width) {
    using Kernel = kernels::AttentionDelta<T, width()>;
    stream.launch(Kernel{}, detail::head_grid(out, Kernel::rows),
                  {.out = detail::head_tensor(View<const T, 4>(out)),
                   .d_out = detail::head_tensor(d_out),
                   .delta = detail::per_query(delta),
                   .queries = static_cast<int>(out.extent(1)),
                   .dimension = static_cast<int>(out.extent(3))});
  });
}

// In what order dq sums what its keys give. `any` computes 5 products of tiles where `ascending` does 7, but
// adds atomically: no two runs give the same bits.
enum class DqOrder { ascending, any };

// One hop. dq gathers over the hops in dq_carry; the last one stores dq. In ascending order a hop that is
// both the first and the last leaves the carry alone; in any order it must be contiguous. dk and dv are
// overwritten or, float32 alone, added to, as `into_dk_dv` says. room: attention_backward_room(queries)
// integers.
template <DqOrder dq_order = DqOrder::ascending, kernel_stream S, half T, class G>
void attention_backward(const S& stream, View<const std::type_identity_t<T>, 4> q,
                        View<const std::type_identity_t<T>, 4> k, View<const std::type_identity_t<T>, 4> v,
                        View<const float, 3> lse, View<const float, 3> delta,
                        View<const std::type_identity_t<T>, 4> d_out, const AttentionSettings& settings,
                        const KeyRanges& ranges, Hop hop, View<float, 4> dq_carry, View<T, 4> dq,
                        View<G, 4> dk, View<G, 4> dv, Vector<std::int32_t> room,
                        Accumulate into_dk_dv = Accumulate::no) {
  constexpr bool any_order = dq_order == DqOrder::any;
  const bool carries = any_order || !hop.first || !hop.last;
  detail::require_attention_inputs<T>(q, k, v, d_out, settings);
  if (!detail::rows_aligned<16 / sizeof(G)>(dk, dv) || (hop.last && !detail::rows_aligned<8>(dq)) ||
      (carries && !detail::rows_aligned<4>(dq_carry))) {
    throw Error("attention: a row of a gradient does not begin at a multiple of 16 bytes",
                "give strides that are multiples of 16 bytes, and aligned memory");
  }
  if (any_order && !dq_carry.contiguous()) {
    throw Error("attention: dq is summed in any order, and its carry is strided", "give a contiguous one");
  }
  const int queries = static_cast<int>(q.extent(1));
  const int group = static_cast<int>(q.extent(2) / k.extent(2));
  if constexpr (any_order) {
    if (hop.first) fill(stream, flat(dq_carry), 0.0f);
  }
  const auto give_to_keys = [&](auto width, auto mask) {
    constexpr auto tile =
        kernels::attention_backward_keys_tile(kernels::architecture, width(), mask(), any_order);
    if constexpr (tile.mask == kernels::HopMask::intervals) {
      static_assert(attention_backward_room(1024) >= 2 * ceil_divide(1024, tile.columns),
                    "attention_backward_room must have 2 integers for every tile of queries");
      if (queries > 0) {
        const int tiles = ceil_divide(queries, tile.columns);
        stream.launch(kernels::TileRanges{}, {.x = ceil_divide(tiles, kernels::TileRanges::tiles_per_block)},
                      {detail::key_ranges(ranges), detail::span_of(room), queries, tile.columns});
      }
    }
    stream.launch(kernels::AttentionBackwardKeys<T, G, tile>{}, detail::head_grid(k, tile.rows),
                  {.q = detail::head_tensor(q),
                   .k = detail::head_tensor(k),
                   .v = detail::head_tensor(v),
                   .d_out = detail::head_tensor(d_out),
                   .lse = detail::per_query(lse),
                   .delta = detail::per_query(delta),
                   .visible = detail::visible_pairs<mask()>(ranges),
                   .tiles = detail::span_of(room),
                   .dq = detail::head_tensor(dq_carry),
                   .dk = detail::head_tensor(dk),
                   .dv = detail::head_tensor(dv),
                   .queries = queries,
                   .keys = static_cast<int>(k.extent(1)),
                   .dimension = static_cast<int>(k.extent(3)),
                   .group = group,
                   .scale = settings.scale,
                   .scores = kernels::ScoreScale::of(settings.scale, settings.soft_cap),
                   .accumulate = into_dk_dv == Accumulate::yes});
  };
  const auto give_to_queries = [&](auto width, auto hop_carry) {
    constexpr auto tile = kernels::attention_backward_queries_tile(kernels::architecture, width());
    stream.launch(kernels::AttentionBackwardQueries<T, tile, hop_carry()>{}, detail::head_grid(q, tile.rows),
                  {.q = detail::head_tensor(q),
                   .k = detail::head_tensor(k),
                   .v = detail::head_tensor(v),
                   .d_out = detail::head_tensor(d_out),
                   .lse = detail::per_query(lse),
                   .delta = detail::per_query(delta),
                   .ranges = detail::key_ranges(ranges),
                   .dq = detail::head_tensor(dq),
                   .carry_dq = detail::head_tensor(dq_carry),
                   .queries = queries,
                   .dimension = static_cast<int>(q.extent(3)),
                   .group = group,
                   .scale = settings.scale,
                   .scores = kernels::ScoreScale::of(settings.scale, settings.soft_cap),
                   .first_hop = hop.first,
                   .last_hop = hop.last});
  };
  detail::with_attention_width<S, T>(q.extent(3), [&](auto width) {
    if (k.size() > 0) {
      detail::with_hop_mask(ranges, q.extent(1), k.extent(1), [&](auto mask) { give_to_keys(width, mask); });
    }
    if constexpr (!any_order) {
      if (q.size() == 0) return;
      detail::with_hop_carry(hop, [&](auto hop_carry) { give_to_queries(width, hop_carry); });
    }
  });
  if constexpr (any_order) {
    if (hop.last) copy(stream, View<const float, 4>(dq_carry), dq);
  }
}

template <kernel_stream S>
void attention_sinks_backward(const S& stream, View<const float, 3> lse, View<const float, 3> delta,
                              const AttentionSettings& settings, Accumulate accumulate,
                              Vector<float> d_sinks) {
  if (d_sinks.size() == 0) return;
  stream.launch(kernels::AttentionSinksBackward{}, {.x = static_cast<int>(d_sinks.size())},
                {.lse = detail::per_query(lse),
                 .delta = detail::per_query(delta),
                 .sinks = detail::span_of(settings.sinks),
                 .d_sinks = detail::span_of(d_sinks),
                 .batch = static_cast<int>(lse.extent(0)),
                 .queries = static_cast<int>(lse.extent(2)),
                 .accumulate = accumulate == Accumulate::yes});
}

}  // namespace trilith::inline v0::ops
