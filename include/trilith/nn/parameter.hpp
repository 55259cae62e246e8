// Parameters: what a tensor is called, how it is split over tensor ranks, where this rank's part lies.
//
// A rank's parameters lie in one contiguous buffer and their gradients in another, both float32, in the order
// in which the layers were built. Layers hold references; gradient reduction, the optimizer and checkpoints
// see the buffers. Where layers compute with 16-bit weights, these lie in a third buffer, at the same
// offsets: copies, which whoever writes values also writes.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <trilith/core/hash.hpp>
#include <trilith/core/random.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

// A tensor seen, in row-major order, as (outer, extent, inner), `extent` divided into equal parts. So a
// column split of an (in, out) weight is {in, out, 1}, a row split {1, in, out}, and a fused (in, 3 · out)
// weight whose three parts are each split {3 · in, out, 1}.
struct Partition {
  Index outer = 1;
  Index extent = 1;
  Index inner = 1;
  int parts = 1;  // 1: whole on every tensor rank
  // Neighbouring tensor ranks that hold the same part and of its gradient one summand each. Where it is 1,
  // what is whole on several ranks has its whole gradient on each.
  int copies = 1;

  // Whether this rank is the first of those that hold the same elements.
  constexpr bool first_holder(int tensor_rank) const {
    return parts == 1 ? tensor_rank == 0 : tensor_rank % copies == 0;
  }

  constexpr Index share() const { return ceil_divide(extent, parts); }  // of a part, with its padding
  constexpr Index local_size() const { return outer * share() * inner; }
  constexpr Index size() const { return outer * extent * inner; }

  // Calls f(offset in the whole tensor, offset in the part, count) for each contiguous run of elements of the
  // rank's part. Padding belongs to no run.
  template <class F>
  void for_each_run(int tensor_rank, F&& f) const {
    if (parts == 1) return f(Index{0}, Index{0}, size());  // whatever the rank
    const int part = tensor_rank / copies;
    const Index first = std::min(part * share(), extent);
    const Index held = std::min(share(), extent - first);
    if (held <= 0) return;
    for (Index o = 0; o < outer; ++o) {
      f((o * extent + first) * inner, o * share() * inner, held * inner);
    }
  }
};

enum class Initial { zeros, ones, normal };

struct ParameterSpec {
  std::string name;          // as in checkpoints
  std::vector<Index> shape;  // of the whole tensor
  Partition partition;
  Initial initial = Initial::zeros;
  float deviation = 0;   // of Initial::normal
  bool decays = false;   // by weight decay: matrices and embeddings do, biases and norms do not
  bool is_copy = false;  // of a tensor that another stage owns: not counted, not saved
  bool adjoins = false;  // begins where the parameter before it ends, so that the two are one matrix
};

// Of layers that compute with `Element`.
template <class Element>
struct Parameter {
  ParameterSpec spec;
  Index offset = 0;  // in the rank's buffers
  Vector<float> value;
  Vector<float> gradient;
  Vector<Element>
      weight;  // what layers compute with: the value, rounded; where it is float, the value itself

  // The local part as a matrix.
  Matrix<const Element> matrix(Index rows, Index columns) const { return {weight.data(), {rows, columns}}; }
  Matrix<float> gradient_matrix(Index rows, Index columns) const {
    return {gradient.data(), {rows, columns}};
  }
};

template <device D, class Element = float>
class Parameters {
 public:
  static constexpr bool has_copies = !std::same_as<Element, float>;

  explicit Parameters(int tensor_rank) : tensor_rank_(tensor_rank) {}

  // Until allocate() the parameter has no memory. The reference stays valid.
  Parameter<Element>& add(ParameterSpec spec) {
    Parameter<Element>& parameter = parameters_.emplace_back();
    parameter.spec = std::move(spec);
    parameter.offset = parameter.spec.adjoins ? end_ : aligned(end_);
    end_ = parameter.offset + parameter.spec.partition.local_size();
    return parameter;
  }

  // The parameter of that name, or null.
  Parameter<Element>* find(const std::string& name) {
    const auto place = std::find_if(parameters_.begin(), parameters_.end(),
                                    [&](const Parameter<Element>& p) { return p.spec.name == name; });
    return place == parameters_.end() ? nullptr : &*place;
  }

  // Where the parameter after `p` begins, if it does not adjoin `p`, or the buffers end.
  Index end_of(const Parameter<Element>& p) const {
    return p.offset + aligned(p.spec.partition.local_size());
  }

  // Uninitialised; once, after the last add().
  void allocate(typename D::memory& memory) {
    const std::size_t bytes = static_cast<std::size_t>(size()) * sizeof(float);
    value_memory_ = memory.allocate(bytes);
    gradient_memory_ = memory.allocate(bytes);
    if constexpr (has_copies) {
      weight_memory_ = memory.allocate(static_cast<std::size_t>(size()) * sizeof(Element));
    }
    for (Parameter<Element>& p : parameters_) {
      const Index count = p.spec.partition.local_size();
      p.value = values().slice(0, p.offset, count);
      p.gradient = gradients().slice(0, p.offset, count);
      p.weight = weights().slice(0, p.offset, count);
    }
  }

  // Values, and weights, that depend on the seed and the parameters' names, not on the layout.
  void initialize(const typename D::stream& stream, std::uint64_t seed);

  // Makes the weights what the values are, where they are copies.
  void copy_values(const typename D::stream& stream) const {
    if constexpr (has_copies) copy(stream, Vector<const float>(values()), weights());
  }

  int tensor_rank() const { return tensor_rank_; }
  Index size() const { return aligned(end_); }
  Vector<float> values() const { return {reinterpret_cast<float*>(value_memory_.data()), {size()}}; }
  Vector<float> gradients() const { return {reinterpret_cast<float*>(gradient_memory_.data()), {size()}}; }

  Vector<Element> weights() const {
    if constexpr (has_copies)
      return {reinterpret_cast<Element*>(weight_memory_.data()), {size()}};
    else
      return values();
  }

  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }

 private:
  // In elements: in every buffer each parameter begins a cache line, but for those that adjoin another.
  static constexpr Index aligned(Index size) {
    constexpr Index line = 64 / sizeof(Element);
    return round_up(size, line);
  }

  // The stream of the random numbers of a parameter.
  static std::uint64_t stream_of(const std::string& name) {
    Fnv1a hash;
    for (const char c : name) hash.add(c);
    return hash.value();
  }

  int tensor_rank_;
  Index end_ = 0;  // of the last parameter
  std::deque<Parameter<Element>> parameters_;
  typename D::allocation value_memory_;
  typename D::allocation gradient_memory_;
  typename D::allocation weight_memory_;  // none where the weights are the values
};

template <device D, class Element>
void Parameters<D, Element>::initialize(const typename D::stream& stream, std::uint64_t seed) {
  constexpr Index piece = Index{1} << 16;  // elements that are drawn, then copied, at once
  std::vector<float> drawn(piece);
  fill(stream, values(), 0.0f);
  fill(stream, gradients(), 0.0f);
  for (Parameter<Element>& p : parameters_) {
    if (p.spec.initial == Initial::zeros) continue;
    const Philox random(seed, stream_of(p.spec.name));
    p.spec.partition.for_each_run(tensor_rank_, [&](Index global, Index local, Index count) {
      if (p.spec.initial == Initial::ones) return fill(stream, p.value.slice(0, local, count), 1.0f);
      for (Index done = 0; done < count; done += piece) {
        const Index length = std::min(piece, count - done);
        random.normals(static_cast<std::uint64_t>(global + done), length, p.spec.deviation, drawn.data());
        upload(stream, drawn.data(), p.value.slice(0, local + done, length));
      }
    });
  }
  copy_values(stream);
}

// Those of layers with this LayerConfig.
template <class L>
using ParametersOf = Parameters<typename L::device_type, typename L::element>;
template <class L>
using ParameterOf = Parameter<typename L::element>;

}  // namespace trilith::inline v0
