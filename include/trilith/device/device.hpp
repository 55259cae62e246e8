// The device concept: what a place that computes must supply. Operations are free functions in
// `trilith::ops`, overloaded by the device's stream; everything above `ops/` is written once against this.
//
// Work is enqueued on a stream and runs in order; stream.synchronize() waits for it, and stream.stamp(&time)
// takes the time between two pieces of it (see core/recorder.hpp). Memory is allocated by a Memory that
// belongs to one rank and counts what it gives out.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace trilith::inline v0 {

namespace ops {

// The base of every device's stream. Code that is written once for all devices calls an operation by its bare
// name, gemm(stream, …); this base makes argument-dependent lookup search `ops`, where it finds the overload
// of the stream's device, even one declared later.
struct Stream {};

// The base of those streams whose work is done when a call returns, on memory that this program can touch.
struct ImmediateStream : Stream {};

}  // namespace ops

// Where a rank computes: what its stream and its memory are made from.
struct Place {
  int rank = 0;         // of the world
  int threads = 1;      // of its work on this machine's cores
  bool poison = false;  // fill new memory with NaN, so that a read before a write shows
};

template <class D>
concept device = std::derived_from<typename D::stream, ops::Stream> &&
    std::constructible_from<typename D::stream, const Place&> &&
    std::constructible_from<typename D::memory, const Place&> &&
    requires(typename D::stream& stream, typename D::memory& memory, std::size_t bytes, std::int64_t* time) {
  D::name;
  // whether it computes with elements of this type (core/precision.hpp)
  { D::template computes_with<float> } -> std::convertible_to<bool>;
  stream.synchronize();
  stream.stamp(time);
  { memory.allocate(bytes) } -> std::same_as<typename D::allocation>;
  { memory.bytes_in_use() } -> std::same_as<std::size_t>;
  { memory.peak_bytes() } -> std::same_as<std::size_t>;
};

struct Host;

template <class D>
struct Device;

struct DeviceCategory {
  using default_policy = Device<Host>;
};

// The policy of a Config that chooses the device.
template <class D>
struct Device {
  static_assert(device<D>,
                "Device<D>: D must be a device such as Host: a type with stream, memory and "
                "allocation (see device/device.hpp)");
  using category = DeviceCategory;
  using device_type = D;
};

}  // namespace trilith::inline v0
