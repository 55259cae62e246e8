// Global memory for kernels under test: aligned to 256 bytes, as a device's allocations are, copies too.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::test {

template <class T>
struct DeviceAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{256};

  DeviceAllocator() = default;
  template <class U>
  explicit DeviceAllocator(const DeviceAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), alignment)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, alignment); }
  bool operator==(const DeviceAllocator&) const { return true; }
};

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size, T value = {}) : values_(static_cast<std::size_t>(size), value) {}

  T* data() { return values_.data(); }
  T& operator[](Index i) { return values_[static_cast<std::size_t>(i)]; }
  Index size() const { return static_cast<Index>(values_.size()); }
  simt::Global<T> view() { return {data(), size()}; }

 private:
  std::vector<T, DeviceAllocator<T>> values_;
};

}  // namespace trilith::test
