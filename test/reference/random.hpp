// Random models and batches for tests that compare with the reference.
#pragma once

#include <cstdint>

#include <trilith/core/random.hpp>

#include "test/reference/gpt.hpp"
#include "test/reference/llama.hpp"

namespace trilith::reference {

// Weights in which nothing is zero, one, or small enough to hide a mistake: normal with deviation `scale`,
// about one for the gains of norms. Every value is a float, so that a float32 model can hold the same ones.
template <class Shape>
Weights random_weights(const Shape& shape, std::uint64_t seed, float scale = 0.25f) {
  Weights weights;
  std::uint64_t stream = 0;
  for (const auto& [name, extents] : weight_extents(shape)) {
    const bool gain = extents.size() == 1 && name.ends_with(".weight");
    const Philox random(seed, stream++);
    Index size = 1;
    for (Index extent : extents) size *= extent;
    Values& values = weights[name];
    for (Index i = 0; i < size; ++i) {
      const float value = scale * random.normal(i) + (gain ? 1.0f : 0.0f);
      values.push_back(value);
    }
  }
  return weights;
}

// Tokens and targets drawn at random, about one target in five ignored, never the first: so some count, and
// sequences differ in how many.
template <class Shape>
Batch random_batch(const Shape& shape, Index sequences, Index length, std::uint64_t seed) {
  const Philox random(seed, 0);
  Batch batch{sequences, length, {}, {}};
  for (Index i = 0; i < sequences * length; ++i) {
    const auto words = random.block(i);
    batch.tokens.push_back(static_cast<std::int32_t>(words[0] % shape.vocabulary));
    batch.targets.push_back(
        i > 0 && words[2] % 5 == 0 ? ignored_target : static_cast<std::int32_t>(words[1] % shape.vocabulary));
  }
  return batch;
}

}  // namespace trilith::reference
