// How operations of the ranks of one process are carried out on memory that this program can touch: in
// slices, each by whichever member waits. So it serves the devices whose work is done when a call returns.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/comm/thread_hub.hpp>
#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

// A carrier of BasicThreadCommunicator. Sums of 16-bit elements are made in float32 and rounded once.
class SliceCarrier {
 public:
  using stream = ops::ImmediateStream;

  SliceCarrier(int /*rank*/, const std::vector<int>& /*members*/) {}

  std::shared_ptr<const void> kept(const stream&) const { return nullptr; }
  static void wait(const stream&, const void* /*begun*/) {}
  static void abandon(const void* /*begun*/) {}

  template <class T>
  static ThreadHub::Work all_reduce(int /*ranks*/, Index count, Reduction reduction) {
    return {.slices = ranges(count),
            .run = reduction == Reduction::sum ? &reduce_all<T, Sum> : &reduce_all<T, Max>,
            .count = count};
  }
  template <class T>
  static ThreadHub::Work reduce_scatter(int ranks, Index count) {
    return {.slices = ranks * ranges(count), .run = &reduce_blocks<T>, .count = count};
  }
  template <class T>
  static ThreadHub::Work all_gather(int ranks, Index count) {
    return {.slices = ranks * ranges(count), .run = &gather_blocks<T>, .count = count};
  }
  template <class T>
  static ThreadHub::Work broadcast(int /*ranks*/, Index count, int root) {
    return {.slices = ranges(count), .run = &copy_from_root<T>, .count = count, .argument = root};
  }
  template <class T>
  static ThreadHub::Work ring_shift(int ranks, Index count) {
    return {.slices = ranks * ranges(count), .run = &shift_blocks<T>, .count = count};
  }
  static ThreadHub::Work barrier() { return {}; }
  static ThreadHub::Work message(Index bytes) {
    return {.slices = std::max<Index>(ceil_divide(bytes, message_range), 1),
            .run = &copy_message,
            .count = bytes};
  }

 private:
  using Parts = ThreadHub::Parts;

  // Elements and bytes of one slice: small enough to share, large enough to be worth it.
  static constexpr Index range = 16384;
  static constexpr Index message_range = range * 4;

  static constexpr Index ranges(Index count) { return ceil_divide(count, range); }

  struct Sum {
    template <class T>
    static T apply(T a, T b) {
      return a + b;
    }
  };
  struct Max {
    template <class T>
    static T apply(T a, T b) {
      return a > b || a != a ? a : b;  // NaN stays
    }
  };

  // parts[k].out[first, last) = the reduction over all members of in[offset + first, offset + last), for
  // to_first ≤ k < to_last.
  template <class T, class Op>
  static void reduce_range(const Parts& parts, Index offset, Index first, Index last, std::size_t to_first,
                           std::size_t to_last) {
    using Total = std::conditional_t<half<T>, float, T>;
    constexpr Index block = 2048;  // stays in the first-level cache
    alignas(64) Total total[block];
    for (Index begin = first; begin < last; begin += block) {
      const Index length = std::min(block, last - begin);
      const T* x = static_cast<const T*>(parts[0].in) + offset + begin;
      for (Index i = 0; i < length; ++i) total[i] = static_cast<Total>(x[i]);
      for (std::size_t member = 1; member < parts.size(); ++member) {
        x = static_cast<const T*>(parts[member].in) + offset + begin;
        for (Index i = 0; i < length; ++i) total[i] = Op::apply(total[i], static_cast<Total>(x[i]));
      }
      for (std::size_t k = to_first; k < to_last; ++k) {
        write_rounded(total, length, static_cast<T*>(parts[k].out) + begin);
      }
    }
  }

  template <class Total, class T>
  static void write_rounded(const Total* total, Index count, T* to) {
    if constexpr (std::same_as<Total, T>) {
      std::memcpy(to, total, count * sizeof(T));
    } else {
      for (Index i = 0; i < count; ++i) to[i] = T(total[i]);
    }
  }

  template <class T, class Op>
  static void reduce_all(const Parts& parts, Index count, int, Index slice) {
    reduce_range<T, Op>(parts, 0, slice * range, std::min(count, (slice + 1) * range), 0, parts.size());
  }

  // Slices of collectives that move blocks: (block, range within it).
  template <class T>
  static void reduce_blocks(const Parts& parts, Index count, int, Index slice) {
    const Index block = slice / ranges(count);
    const Index first = slice % ranges(count) * range;
    reduce_range<T, Sum>(parts, block * count, first, std::min(count, first + range),
                         static_cast<std::size_t>(block), static_cast<std::size_t>(block) + 1);
  }

  template <class T>
  static void copy_range(const void* from, void* to, Index count, Index slice) {
    const Index first = slice * range;
    const T* source = static_cast<const T*>(from) + first;
    T* target = static_cast<T*>(to) + first;
    const Index length = std::min(range, count - first);
    if (source != target && length > 0) std::memcpy(target, source, length * sizeof(T));
  }

  template <class T>
  static void gather_blocks(const Parts& parts, Index count, int, Index slice) {
    const Index block = slice / ranges(count);
    for (const ThreadHub::Part& part : parts) {
      copy_range<T>(parts[block].in, static_cast<T*>(part.out) + block * count, count, slice % ranges(count));
    }
  }

  template <class T>
  static void copy_from_root(const Parts& parts, Index count, int root, Index slice) {
    for (const ThreadHub::Part& part : parts) copy_range<T>(parts[root].in, part.out, count, slice);
  }

  template <class T>
  static void shift_blocks(const Parts& parts, Index count, int, Index slice) {
    const std::size_t from = static_cast<std::size_t>(slice / ranges(count));
    copy_range<T>(parts[from].in, parts[(from + 1) % parts.size()].out, count, slice % ranges(count));
  }

  static void copy_message(const Parts& parts, Index count, int, Index slice) {
    const Index first = slice * message_range;
    const Index length = std::min(message_range, count - first);
    if (length > 0) {
      std::memcpy(static_cast<char*>(parts[1].out) + first, static_cast<const char*>(parts[0].in) + first,
                  length);
    }
  }
};

}  // namespace trilith::inline v0
