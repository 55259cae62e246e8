// Views of tensors: a pointer, extents and strides. A view owns nothing and never reads what it points to,
// so the same type names host and device memory.
//
// The last dimension is contiguous. Extents and offsets are 64-bit: a 225304 × 9728 weight has more
// elements than an int can count.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace trilith::inline v0 {

using Index = std::int64_t;

template <class T, int Rank>
class View {
 public:
  using value_type = std::remove_const_t<T>;
  using Extents = std::array<Index, Rank>;

  constexpr View() = default;

  // A contiguous view, last dimension fastest.
  constexpr View(T* data, Extents extents) : data_(data), extents_(extents) {
    Index stride = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      strides_[d] = stride;
      stride *= extents[d];
    }
  }

  // A view with given strides, in elements; strides.back() must be 1.
  constexpr View(T* data, Extents extents, Extents strides)
      : data_(data), extents_(extents), strides_(strides) {}

  // Implicit, as from T* to const T*. A template, for nvcc warns of one that would convert a class to itself,
  // also where it requires the opposite. NOLINTNEXTLINE(google-explicit-constructor)
  template <std::same_as<const T> U>
  constexpr operator View<U, Rank>() const requires(!std::is_const_v<T>) {
    return {data_, extents_, strides_};
  }

  constexpr T* data() const { return data_; }
  constexpr Index extent(int dimension) const { return extents_[dimension]; }
  constexpr Index stride(int dimension) const { return strides_[dimension]; }
  constexpr const Extents& extents() const { return extents_; }
  constexpr Index size() const {
    Index product = 1;
    for (Index extent : extents_) product *= extent;
    return product;
  }
  constexpr bool contiguous() const {
    Index expected = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      if (extents_[d] != 1 && strides_[d] != expected) return false;
      expected *= extents_[d];
    }
    return true;
  }

  template <class... Indices>
  constexpr T& operator()(Indices... indices) const requires(sizeof...(Indices) == Rank) {
    Index offset = 0;
    int dimension = 0;
    ((offset += static_cast<Index>(indices) * strides_[dimension++]), ...);
    return data_[offset];
  }

  // Row `index` of the first dimension, without that dimension.
  constexpr View<T, Rank - 1> operator[](Index index) const requires(Rank > 1) {
    std::array<Index, Rank - 1> extents{};
    std::array<Index, Rank - 1> strides{};
    for (int d = 1; d < Rank; ++d) {
      extents[d - 1] = extents_[d];
      strides[d - 1] = strides_[d];
    }
    return {data_ + index * strides_[0], extents, strides};
  }

  // `count` indices of `dimension`, from `first` on.
  constexpr View slice(int dimension, Index first, Index count) const {
    View part = *this;
    part.data_ += first * strides_[dimension];
    part.extents_[dimension] = count;
    return part;
  }

 private:
  T* data_ = nullptr;
  Extents extents_{};
  Extents strides_{};
};

template <class T>
using Vector = View<T, 1>;
template <class T>
using Matrix = View<T, 2>;

// All elements of a contiguous view as one dimension.
template <class T, int Rank>
constexpr Vector<T> flat(View<T, Rank> view) {
  return {view.data(), {view.size()}};
}

}  // namespace trilith::inline v0
