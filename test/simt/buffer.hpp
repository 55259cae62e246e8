// Global memory for kernels under test: aligned to 256 bytes, as a device's allocations are.
#pragma once

#include <cstddef>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::test {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size, T value = {}) : size_(size), bytes_(size * sizeof(T) + alignment) {
    for (Index i = 0; i < size; ++i) data()[i] = value;
  }

  T* data() {
    const auto address = reinterpret_cast<std::size_t>(bytes_.data());
    return reinterpret_cast<T*>(bytes_.data() + (alignment - address % alignment));
  }
  T& operator[](Index i) { return data()[i]; }
  Index size() const { return size_; }
  simt::Global<T> view() { return {data(), size_}; }

 private:
  static constexpr std::size_t alignment = 256;

  Index size_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace trilith::test
