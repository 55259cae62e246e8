// Operands for operations on matrices: on a GPU, and the same numbers on the host.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <type_traits>
#include <vector>

#include <trilith/core/tensor.hpp>
#include <trilith/ops/cuda/transfer.cuh>

#include "bench/gpu/gpu.cuh"

namespace trilith::bench {

// Views of operands; matrices beyond those that were asked for are empty. Float32 numbers are about 1, since
// second moments and sums of exponentials are positive; the others are normal.
template <class T>
struct Operands {
  std::array<Matrix<T>, 5> x;            // (rows, columns)
  std::array<Matrix<float>, 4> f;        // (rows, columns)
  std::array<Vector<T>, 3> of_columns;   // (columns)
  std::array<Vector<float>, 2> sums;     // (columns)
  std::array<Vector<float>, 3> of_rows;  // (rows)
  Vector<std::int32_t> ids;              // (rows): the rows in some order
  Vector<double> total;                  // (1)

  // x[i] as one sequence of heads.
  View<T, 4> heads(int i, Index dimension) const {
    return {x[i].data(), {1, x[i].extent(0), x[i].extent(1) / dimension, dimension}};
  }

  // visit(a, b) for each view of `a` and its counterpart in `b`, as vectors, but for the ids.
  template <class A, class B, class Visit>
  static void for_each_pair(A& a, B& b, Visit&& visit) {
    const auto each = [&](auto& of_a, auto& of_b) {
      for (std::size_t i = 0; i < of_a.size(); ++i) visit(of_a[i], of_b[i]);
    };
    each(a.x, b.x);
    each(a.f, b.f);
    each(a.of_columns, b.of_columns);
    each(a.sums, b.sums);
    each(a.of_rows, b.of_rows);
    visit(a.total, b.total);
  }
};

template <class T>
class GpuOperands {
 public:
  GpuOperands(Gpu& gpu, Index rows, Index columns, int matrices, int float_matrices) : gpu_(gpu) {
    for (int i = 0; i < matrices; ++i) views_.x[i] = random<Matrix<T>>({rows, columns}, 0, 1);
    for (int i = 0; i < float_matrices; ++i) views_.f[i] = random<Matrix<float>>({rows, columns}, 1, 0.1f);
    for (Vector<T>& v : views_.of_columns) v = random<Vector<T>>({columns}, 0, 1);
    for (Vector<float>& v : views_.sums) v = random<Vector<float>>({columns}, 1, 0.1f);
    for (Vector<float>& v : views_.of_rows) v = random<Vector<float>>({rows}, 1, 0.1f);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
    for (Index i = 0; i < rows; ++i) ids[i] = static_cast<std::int32_t>((i ^ 1) % rows);
    views_.ids = {keep<std::int32_t>(rows), {rows}};
    ops::upload(gpu.stream, ids.data(), views_.ids);
    views_.total = {keep<double>(1), {1}};
    const double zero = 0;
    ops::upload(gpu.stream, &zero, views_.total);
  }

  const Operands<T>& views() const { return views_; }

 private:
  template <class E>
  E* keep(Index size) {
    allocations_.push_back(gpu_.memory.allocate(static_cast<std::size_t>(size) * sizeof(E)));
    return reinterpret_cast<E*>(allocations_.back().data());
  }

  template <class V>
  V random(typename V::Extents extents, float mean, float deviation) {
    V view(nullptr, extents);
    view = V(keep<typename V::value_type>(view.size()), extents);
    randomize(gpu_, flat(view), allocations_.size(), mean, deviation);
    return view;
  }

  Gpu& gpu_;
  std::vector<Cuda::Allocation> allocations_;
  Operands<T> views_;
};

// The numbers that a GPU's operands have now, in float32.
class HostOperands {
 public:
  template <class T>
  HostOperands(const Gpu& gpu, const Operands<T>& on_gpu)
      : ids_(static_cast<std::size_t>(on_gpu.ids.size())) {
    Operands<T>::for_each_pair(on_gpu, views_, [&](const auto& from, auto& to) {
      if constexpr (std::is_same_v<decltype(from), const Vector<double>&>) {
        to = {&total_, {1}};
      } else if (from.data() != nullptr) {
        values_.push_back(rows_on_host(gpu, from.data(), 1, from.size(), from.size()));
        to = {values_.back().data(), from.extents()};
      }
    });
    ops::download(gpu.stream, Vector<const std::int32_t>(on_gpu.ids), ids_.data());
    views_.ids = {ids_.data(), {on_gpu.ids.size()}};
  }

  const Operands<float>& views() const { return views_; }

 private:
  std::list<std::vector<float>> values_;
  std::vector<std::int32_t> ids_;
  double total_ = 0;
  Operands<float> views_;
};

// The largest ‖on the GPU − on the host‖ / ‖on the host‖ of any of the operands.
template <class T>
double largest_difference(const Gpu& gpu, const Operands<T>& on_gpu, const Operands<float>& on_host) {
  double largest = 0;
  Operands<T>::for_each_pair(on_gpu, on_host, [&](const auto& actual, const auto& expected) {
    if (actual.data() == nullptr) return;
    const auto values = rows_on_host(gpu, actual.data(), 1, actual.size(), actual.size());
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto right = static_cast<double>(expected.data()[i]);
      difference += (values[i] - right) * (values[i] - right);
      norm += right * right;
    }
    const double relative = difference == 0 ? 0 : std::sqrt(difference / norm);
    largest = std::isnan(relative) ? INFINITY : std::max(largest, relative);
  });
  return largest;
}

}  // namespace trilith::bench
