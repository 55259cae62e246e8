// What a model is trained on and what is held out to judge it, as tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

// 16 bits hold a byte and every token of GPT-2; the whole corpus is in memory.
using Token = std::uint16_t;

struct Corpus {
  std::string source;  // for errors: the file or folder it was read from
  int vocabulary = 0;  // a model with so many tokens can read it
  std::vector<Token> training;
  std::vector<Token> validation;
};

// Throws Error unless every token is below `vocabulary`, that of the model.
inline void check_tokens(const Corpus& corpus, int vocabulary) {
  const auto check = [&](const std::vector<Token>& tokens, const char* part) {
    const auto outside =
        std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return token >= vocabulary; });
    if (outside == tokens.end()) return;
    throw Error("token " + std::to_string(*outside) + " at position " +
                    std::to_string(outside - tokens.begin()) + " of the " + part + " tokens of " +
                    corpus.source + " lies outside the model's vocabulary of " + std::to_string(vocabulary),
                "give the vocabulary that the tokens were made with, or other data");
  };
  check(corpus.training, "training");
  check(corpus.validation, "validation");
}

// Throws Error unless training and validation tokens each fill one sequence and the token after it.
inline void check_length(const Corpus& corpus, Index length) {
  const auto check = [&](const std::vector<Token>& tokens, const char* part) {
    if (length > 0 && static_cast<Index>(tokens.size()) > length) return;
    throw Error("a sequence of length " + std::to_string(length) + " needs " + std::to_string(length + 1) +
                    " tokens, but the " + part + " part of " + corpus.source + " has " +
                    std::to_string(tokens.size()),
                length > 0
                    ? "give a shorter sequence or more data (held-out text that also stands in the training "
                      "part counts in neither)"
                    : "give a sequence of at least one token");
  };
  check(corpus.training, "training");
  check(corpus.validation, "validation");
}

// Entropy of `tokens` under their own frequencies, in nats per token: no model that ignores the context can
// reach a lower mean loss on them. 0 for no tokens.
inline double unigram_entropy(std::span<const Token> tokens) {
  std::vector<Index> counts(std::size_t{1} << 16);
  for (const Token token : tokens) ++counts[token];
  const auto total = static_cast<double>(tokens.size());
  double entropy = 0;
  for (const Index count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / total;
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace trilith::inline v0
