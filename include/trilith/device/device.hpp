// The device concept: what a place that computes must supply. Operations are free functions in
// `trilith::ops`, overloaded by the device's stream; everything above `ops/` is written once against this.
//
// Work is enqueued on a stream and runs in order; stream.synchronize() waits for it. Memory is allocated
// by a Memory that belongs to one rank and counts what it gives out.
#pragma once

#include <concepts>
#include <cstddef>

namespace trilith::inline v0 {

template <class D>
concept device = requires(typename D::stream& stream, typename D::memory& memory, std::size_t bytes) {
  { D::name };
  { stream.synchronize() };
  { memory.allocate(bytes) } -> std::same_as<typename D::allocation>;
  { memory.bytes_in_use() } -> std::same_as<std::size_t>;
  { memory.peak_bytes() } -> std::same_as<std::size_t>;
};

}  // namespace trilith::inline v0
