// Where a model is built: what a rank gives it besides its shape and its stage.
#pragma once

#include <trilith/core/tensor.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/nn/parameter.hpp>

namespace trilith::inline v0 {

// All of it must outlive the model.
template <class L>
struct ModelSite {
  ParametersOf<L>& parameters;
  typename L::communicator& tensor_group;
  typename L::communicator& context_group;
  typename L::memory& memory;
  const typename L::stream& stream;
  Index sequence;  // tokens of a sequence, over all context ranks
  Padding padding = Padding::no;
};

}  // namespace trilith::inline v0
