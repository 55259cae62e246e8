// GPT-2's embedding: of the token, split over tensor ranks, plus that of its position, learned and whole on
// every rank.
#pragma once

#include <cstdint>
#include <string>

#include <trilith/core/tensor.hpp>
#include <trilith/mask/split.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/model_site.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/nn/row_positions.hpp>
#include <trilith/nn/vocabulary.hpp>
#include <trilith/ops/accumulate.hpp>

namespace trilith::inline v0 {

template <class L>
class GptEmbedding {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  // `table`: of the tokens. `rows`: of a sequence on this rank. `deviation`: of the positions' initial
  // values.
  template <class Split>
  GptEmbedding(const ParameterOf<L>& table, const GptShape& shape, float deviation,
               const LocalRows<Split>& rows, const ModelSite<L>& site)
      : positions_count_(shape.positions),
        hidden_(shape.hidden),
        tokens_(table, shape.vocabulary, shape.hidden, site.tensor_group),
        positions_(&site.parameters.add({.name = "wpe.weight",
                                         .shape = {shape.positions, shape.hidden},
                                         .partition = {.extent = shape.positions, .inner = shape.hidden},
                                         .initial = Initial::normal,
                                         .deviation = deviation,
                                         .decays = true})),
        position_of_row_(rows, site.sequence, site.memory, site.stream) {}

  // y: (rows, hidden)
  void forward(const stream& s, Vector<const std::int32_t> tokens, Matrix<element> y) const {
    tokens_.forward(s, tokens, y);
    add_positions(s, positions_->matrix(positions_count_, hidden_), position_of_row_.view(), y);
  }

  void backward_weight(const stream& s, Vector<const std::int32_t> tokens, Matrix<const element> dy,
                       Accumulate accumulate) const {
    tokens_.backward_weight(s, tokens, dy, accumulate);
    const Matrix<float> d_positions = positions_->gradient_matrix(positions_count_, hidden_);
    if constexpr (L::context_ranks > 1) {
      // Of positions that other context ranks hold, the sum of the step before.
      if (accumulate == Accumulate::no) fill(s, flat(d_positions), 0.0f);
    }
    positions_backward(s, dy, position_of_row_.view(), d_positions, accumulate);
  }

 private:
  Index positions_count_;
  Index hidden_;
  VocabularyParallelEmbedding<L> tokens_;
  const ParameterOf<L>* positions_;
  RowPositions<typename L::device_type> position_of_row_;
};

}  // namespace trilith::inline v0
