// Whole tensors out of the parts that the ranks of a trainer hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/nn/parameter.hpp>

namespace trilith::test {

// By name, each in row-major order.
using WholeTensors = std::map<std::string, std::vector<float>>;

// All tensors of a model; `ranks` are the parameters of every rank, `part` is &Parameter<float>::value or
// &Parameter<float>::gradient. Fails the test where ranks that hold the same elements (data ranks, tensor
// ranks that hold the whole, the two stages of a tied table) differ in a bit, where an element is on no rank,
// and where padding is not zero.
template <device D, class T>
WholeTensors gather(const std::vector<NamedShape>& tensors, const std::vector<const Parameters<D, T>*>& ranks,
                    Vector<float> Parameter<T>::*part) {
  WholeTensors whole;
  std::map<std::string, std::vector<bool>> found;
  for (const auto& [name, shape] : tensors) {
    std::size_t size = 1;
    for (const Index extent : shape) size *= static_cast<std::size_t>(extent);
    whole[name].resize(size);
    found[name].resize(size);
  }

  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Parameter<T>& p : *ranks[rank]) {
      const std::string& name = p.spec.name;
      const std::string where = name + " on rank " + std::to_string(rank);
      if (!whole.contains(name) || p.spec.partition.size() != static_cast<Index>(whole[name].size())) {
        ADD_FAILURE() << where << " is no tensor of the model, or not of its size";
        continue;
      }
      const float* const local = (p.*part).data();
      std::vector<bool> padding(static_cast<std::size_t>(p.spec.partition.local_size()), true);
      bool same = true;
      p.spec.partition.for_each_run(ranks[rank]->tensor_rank(), [&](Index first, Index from, Index count) {
        std::fill_n(padding.begin() + from, count, false);
        for (Index i = 0; i < count; ++i) {
          float& element = whole[name][static_cast<std::size_t>(first + i)];
          if (found[name][static_cast<std::size_t>(first + i)]) {
            same = same && std::memcmp(&element, &local[from + i], sizeof element) == 0;
          }
          element = local[from + i];
          found[name][static_cast<std::size_t>(first + i)] = true;
        }
      });
      EXPECT_TRUE(same) << where << " differs from what another rank holds";
      for (std::size_t i = 0; i < padding.size(); ++i) {
        if (padding[i] && local[i] != 0.0f) ADD_FAILURE() << where << ": padding " << i << " is " << local[i];
      }
    }
  }
  for (const auto& [name, elements] : found) {
    const auto missing = std::count(elements.begin(), elements.end(), false);
    EXPECT_EQ(missing, 0) << "elements of " << name << " that are on no rank";
  }
  return whole;
}

}  // namespace trilith::test
