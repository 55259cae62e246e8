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
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/kernels/attention_forward.hpp>
#include <trilith/kernels/attention_tile.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/parameters.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::ops {

namespace detail {

// Throws Error unless rows of `view`, called `name`, can be moved by 16 bytes.
template <half T>
void require_aligned_rows(const View<T, 4>& view, const char* name) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(view.data()) % 16 == 0 && view.stride(0) % 8 == 0 &&
                       view.stride(1) % 8 == 0 && view.stride(2) % 8 == 0;
  if (!aligned) {
    throw Error(std::string("attention: a row of ") + name + " does not begin at a multiple of 16 bytes",
                "align the tensor to 16 bytes, and let its strides be multiples of 8 elements");
  }
}

// What kernels ask of attention's inputs, on each pass.
template <half T>
void require_attention_inputs(const View<const T, 4>& q, const View<const T, 4>& k, const View<const T, 4>& v,
                              const AttentionSettings& settings) {
  const Index dimension = q.extent(3);
  if (dimension % 8 != 0 || dimension > 256 || dimension <= 0) {
    throw Error("attention: a head has " + std::to_string(dimension) + " elements",
                "kernels take multiples of 8, 256 at most");
  }
  if (!(settings.scale > 0)) {
    throw Error("attention: the scale of scores is " + std::to_string(settings.scale),
                "kernels take a positive one, such as 1 / sqrt(dimension)");
  }
  // Numbers of rows, and of the tiles that go beyond them, are 32-bit.
  constexpr Index most_rows = std::numeric_limits<std::int32_t>::max() - 1024;
  if (q.extent(1) > most_rows || k.extent(1) > most_rows) {
    throw Error("attention: a sequence has more than " + std::to_string(most_rows) + " rows",
                "split it over context ranks");
  }
  if (q.extent(0) > 65535 || q.extent(2) > 65535) {
    throw Error("attention: more than 65535 sequences or heads", "use a smaller batch");
  }
  require_aligned_rows(q, "q");
  require_aligned_rows(k, "k");
  require_aligned_rows(v, "v");
}

// Calls body(std::integral_constant<int, width>{}) with the tile's width of a dimension.
template <class Body>
void with_attention_width(Index dimension, Body&& body) {
  switch (kernels::attention_width(static_cast<int>(dimension))) {
    case 64: return body(std::integral_constant<int, 64>{});
    case 128: return body(std::integral_constant<int, 128>{});
    default: return body(std::integral_constant<int, 256>{});
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
  detail::require_attention_inputs<T>(q, k, v, settings);
  detail::require_aligned_rows(out, "out");
  if (out.size() == 0) return;
  detail::with_attention_width(q.extent(3), [&](auto width) {
    constexpr auto tile = kernels::attention_forward_tile(kernels::architecture, width);
    using Kernel = kernels::AttentionForward<T, tile>;
    const simt::Dim3 grid{static_cast<int>(ceil_divide(q.extent(1), tile.rows)),
                          static_cast<int>(q.extent(2)), static_cast<int>(q.extent(0))};
    stream.launch(Kernel{}, grid,
                  {.q = head_tensor(q),
                   .k = head_tensor(k),
                   .v = head_tensor(v),
                   .out = head_tensor(out),
                   .lse = per_query(lse),
                   .carry_out = head_tensor(carry.out),
                   .carry_maximum = per_query(carry.maximum),
                   .carry_sum = per_query(carry.sum),
                   .ranges = key_ranges(ranges),
                   .sinks = span_of(settings.sinks),
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
