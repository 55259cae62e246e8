// Batches from a corpus. What a batch holds depends on the arguments alone, never on the layout of ranks:
// each rank takes its sequences from the same global batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <trilith/core/random.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/corpus.hpp>

namespace trilith::inline v0 {

// The stream of the offsets of training sequences: "offsets" in ASCII, which no tensor's number reaches.
inline constexpr std::uint64_t offset_stream = 0x6F666673657473;

// Sets sequence `index` of `batch` to the tokens from `offset` on, as far as there are targets for them.
// Places behind the end keep token 0 and ignored_target.
inline void fill_sequence(Batch& batch, Index index, const std::vector<Token>& tokens, Index offset) {
  const Index valid = std::min(batch.length, static_cast<Index>(tokens.size()) - 1 - offset);
  for (Index i = 0; i < valid; ++i) {
    const auto place = static_cast<std::size_t>(index * batch.length + i);
    const auto from = static_cast<std::size_t>(offset + i);
    batch.tokens[place] = tokens[from];
    batch.targets[place] = tokens[from + 1];
  }
}

inline Batch empty_batch(Index sequences, Index length) {
  const auto size = static_cast<std::size_t>(sequences * length);
  return {.sequences = sequences,
          .length = length,
          .tokens = std::vector<std::int32_t>(size, 0),
          .targets = std::vector<std::int32_t>(size, ignored_target)};
}

// `sequences` random stretches of the training tokens. Sequence i depends only on (seed, step, i).
// The corpus has passed check_length().
inline Batch training_batch(const Corpus& corpus, Index sequences, Index length, std::uint64_t seed,
                            std::uint64_t step) {
  const Philox random(seed, offset_stream);
  const std::uint64_t choices = corpus.training.size() - static_cast<std::uint64_t>(length);
  Batch batch = empty_batch(sequences, length);
  for (Index i = 0; i < sequences; ++i) {
    const auto words = random.block(step << 32 | static_cast<std::uint64_t>(i));
    const std::uint64_t number = std::uint64_t{words[0]} << 32 | words[1];
    fill_sequence(batch, i, corpus.training, static_cast<Index>(number % choices));
  }
  return batch;
}

// Batches of `sequences` that cover the validation tokens.
inline Index validation_batches(const Corpus& corpus, Index sequences, Index length) {
  const Index targets = std::max<Index>(static_cast<Index>(corpus.validation.size()) - 1, 0);
  const Index each = sequences * length;
  return ceil_divide(targets, each);
}

// Batch `index` of validation_batches(): consecutive sequences, in which every validation token but the first
// is a target exactly once; what is left of the last batch is ignored.
inline Batch validation_batch(const Corpus& corpus, Index sequences, Index length, Index index) {
  Batch batch = empty_batch(sequences, length);
  for (Index i = 0; i < sequences; ++i) {
    fill_sequence(batch, i, corpus.validation, (index * sequences + i) * length);
  }
  return batch;
}

}  // namespace trilith::inline v0
