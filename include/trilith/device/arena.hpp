// An arena: one allocation, handed out piece by piece. What it must hold is found by running the code that
// takes the pieces against an arena without memory, which only measures.
#pragma once

#include <cstddef>
#include <utility>

#include <trilith/core/error.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

class Arena {
 public:
  // Measures only: the views it gives point nowhere.
  Arena() = default;
  explicit Arena(std::byte* memory) : memory_(memory) {}

  // A view of uninitialised memory, aligned to 64 bytes. Throws Error where the arena would reach 2^62 bytes.
  template <class T, class... Extents>
  View<T, sizeof...(Extents)> take(Extents... extents) {
    T* const data = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    std::size_t bytes = sizeof(T);
    const bool counted = !(__builtin_mul_overflow(bytes, static_cast<std::size_t>(extents), &bytes) || ...);
    if (!counted || bytes > most || used_ + bytes > most) {
      throw Error("more than 2^62 bytes of memory are asked for",
                  "use a smaller model, batch or sequence, or more ranks");
    }
    used_ += round_up(bytes, alignment);
    return {data, {static_cast<Index>(extents)...}};
  }

  // A matrix whose rows begin at multiples of 64 bytes.
  template <class T>
  Matrix<T> take_rows(Index rows, Index columns) {
    constexpr Index step = alignment / sizeof(T);
    const Index stride = round_up(columns, step);
    return {take<T>(rows, stride).data(), {rows, columns}, {stride, 1}};
  }

  std::size_t bytes() const { return used_; }

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t most = std::size_t{1} << 62;

  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
};

// Memory of a device, and what `plan(arena)` has made of it.
template <device D, class Plan>
[[nodiscard]] auto allocate_planned(typename D::memory& memory, Plan&& plan) {
  Arena measure;
  plan(measure);
  typename D::allocation allocation = memory.allocate(measure.bytes());
  Arena arena(allocation.data());
  return std::pair(std::move(allocation), plan(arena));
}

}  // namespace trilith::inline v0
