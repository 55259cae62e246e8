// The vocabulary split over tensor ranks: an embedding whose rows are divided, and the output head with its
// loss, whose logits are never gathered. A vocabulary that does not divide is padded; the padding has zero
// weights, takes no part in the softmax and gets zero gradients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <trilith/comm/communicator.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/ops/accumulate.hpp>
#include <trilith/ops/gemm.hpp>

namespace trilith::inline v0 {

// Which rows of a (vocabulary, hidden) table a tensor rank holds: share, of which `valid` are no padding.
struct VocabularyPart {
  Index first;
  Index share;
  Index valid;

  VocabularyPart(Index vocabulary, int tensor_ranks, int tensor_rank)
      : first(0), share(ceil_divide(vocabulary, tensor_ranks)), valid(0) {
    first = share * tensor_rank;
    valid = std::clamp<Index>(vocabulary - first, 0, share);
  }
};

// The table of an embedding, tied or not.
template <class L>
ParameterSpec embedding_table(const std::string& name, Index vocabulary, Index hidden, float deviation) {
  return {.name = name,
          .shape = {vocabulary, hidden},
          .partition = {.extent = vocabulary, .inner = hidden, .parts = L::tensor_ranks},
          .initial = Initial::normal,
          .deviation = deviation,
          .decays = true};
}

template <class L>
class VocabularyParallelEmbedding {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  // `table`: made from embedding_table() with the same numbers.
  VocabularyParallelEmbedding(const ParameterOf<L>& table, Index vocabulary, Index hidden,
                              typename L::communicator& tensor_group)
      : part_(vocabulary, L::tensor_ranks, tensor_group.rank()),
        hidden_(hidden),
        table_(&table),
        tensor_group_(&tensor_group) {}

  // y: (rows, hidden). Each token's row is on one tensor rank; the others add zeros.
  void forward(const stream& s, Vector<const std::int32_t> tokens, Matrix<element> y) const {
    embedding(s, tokens, table_->matrix(part_.share, hidden_), part_.first, y);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(y)).wait(s);
  }

  void backward_weight(const stream& s, Vector<const std::int32_t> tokens, Matrix<const element> dy,
                       Accumulate accumulate) const {
    if (accumulate == Accumulate::no) fill(s, table_->gradient, 0.0f);
    embedding_backward(s, tokens, dy, part_.first, table_->gradient_matrix(part_.share, hidden_));
  }

 private:
  VocabularyPart part_;
  Index hidden_;
  const ParameterOf<L>* table_;
  typename L::communicator* tensor_group_;
};

// The output head and its cross-entropy: logits = x · tableᵀ, loss = log Σ exp(logits) − logit of the target.
template <class L>
class VocabularyParallelHead {
 public:
  using stream = typename L::stream;
  using element = typename L::element;

  struct Activations {
    Matrix<element> logits;   // (rows, vocabulary / TP); after backward_input their gradients
    Vector<float> local_max;  // (rows)
    Vector<float> max;        // (rows): over the whole vocabulary
    Vector<float> sums;       // (2 · rows): Σ exp(logit − max), then the target's logit
  };

  VocabularyParallelHead(const ParameterOf<L>& table, Index vocabulary, Index hidden,
                         typename L::communicator& tensor_group)
      : part_(vocabulary, L::tensor_ranks, tensor_group.rank()),
        hidden_(hidden),
        table_(&table),
        tensor_group_(&tensor_group) {}

  Activations activations(Arena& arena, Index rows) const {
    return {.logits = arena.take_rows<element>(rows, part_.share),
            .local_max = arena.take<float>(rows),
            .max = arena.take<float>(rows),
            .sums = arena.take<float>(2 * rows)};
  }

  void forward(const stream& s, Matrix<const element> x, const Activations& a) const {
    gemm(s, ops::Transpose::no, x, ops::Transpose::yes, table_->matrix(part_.share, hidden_), a.logits);
  }

  // total(0) = Σ over tokens with a target ≥ 0 of their loss; the same on every tensor rank.
  void loss(const stream& s, Vector<const std::int32_t> targets, const Activations& a,
            Vector<double> total) const {
    const Index rows = targets.size();
    const Vector<float> sum = a.sums.slice(0, 0, rows);
    const Vector<float> target_logit = a.sums.slice(0, rows, rows);
    softmax_statistics(s, Matrix<const element>(a.logits), part_.valid, targets, part_.first, a.max, sum,
                       target_logit);
    if constexpr (L::tensor_ranks > 1) {
      copy(s, Vector<const float>(a.max), a.local_max);
      tensor_group_->all_reduce(s, a.max, Reduction::max).wait(s);
      rescale_sums(s, a.local_max, a.max, sum);
      tensor_group_->all_reduce(s, a.sums).wait(s);
    }
    cross_entropy_loss(s, targets, a.max, sum, target_logit, total);
  }

  // Turns the logits into their gradients, scaled by `scale` (1 / valid tokens of the global batch).
  // dx: (rows, hidden).
  void backward_input(const stream& s, Vector<const std::int32_t> targets, const Activations& a, float scale,
                      Matrix<element> dx) const {
    cross_entropy_backward(s, a.logits, part_.valid, targets, part_.first, a.max,
                           a.sums.slice(0, 0, targets.size()), scale);
    gemm(s, ops::Transpose::no, Matrix<const element>(a.logits), ops::Transpose::no,
         table_->matrix(part_.share, hidden_), dx);
    if constexpr (L::tensor_ranks > 1) tensor_group_->all_reduce(s, flat(dx)).wait(s);
  }

  // d_table: (vocabulary / TP, hidden). A tied table has one place for this gradient and one for the
  // embedding's, so that the two are added in the same order on one rank and on two.
  void backward_weight(const stream& s, Matrix<const element> x, const Activations& a, Matrix<float> d_table,
                       Accumulate accumulate) const {
    gemm(s, ops::Transpose::yes, Matrix<const element>(a.logits), ops::Transpose::no, x, d_table, accumulate);
  }

  const VocabularyPart& part() const { return part_; }

 private:
  VocabularyPart part_;
  Index hidden_;
  const ParameterOf<L>* table_;
  typename L::communicator* tensor_group_;
};

}  // namespace trilith::inline v0
