// Text as a corpus of bytes.
//
// Of each file, about the last tenth is held out for validation, and no text stands in both parts: files of
// equal content count once, and a held-out paragraph is dropped if it, or 13 words of it in a row, stand in
// the training part of any file. (Licences share most of their paragraphs, often but for a word. 13 words
// are what Brown et al., "Language models are few-shot learners", 2020, take for a repetition.) Words are
// compared whatever the space between them, so that another line width makes no difference.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/core/hash.hpp>
#include <trilith/train/corpus.hpp>
#include <trilith/train/mapped_file.hpp>

namespace trilith::inline v0 {

// Space in ASCII, whatever the locale.
constexpr bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Calls use(line) for each line of `text`, with its line break.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == text.npos ? end : end + 1);
    use(line);
    text.remove_prefix(line.size());
  }
}

// Calls use(paragraph) for each paragraph of `text`, with the blank lines that end it.
template <class Use>
void for_each_paragraph(std::string_view text, Use&& use) {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool has_words = false;
  bool ended = false;
  for_each_line(text, [&](std::string_view line) {
    const bool blank = std::all_of(line.begin(), line.end(), is_space);
    if (ended && !blank) {
      use(text.substr(begin, end - begin));
      begin = end;
      has_words = ended = false;
    }
    has_words |= !blank;
    ended |= blank && has_words;
    end += line.size();
  });
  if (end > begin) use(text.substr(begin));
}

// Where the held-out part begins: after nine tenths of the text, or rather at the nearest begin of a
// paragraph, or else of a line, between three quarters and 19 twentieths. A text without line breaks there
// is cut between two characters.
inline std::size_t held_out_begin(std::string_view text) {
  const std::size_t size = text.size();
  const std::size_t aim = size - size / 10;
  const std::size_t first = size - size / 4;
  const std::size_t last = size - size / 20;
  const auto distance = [&](std::size_t place) { return place > aim ? place - aim : aim - place; };
  std::size_t paragraph = text.npos;
  std::size_t line = text.npos;
  const auto nearest = [&](std::size_t place, std::size_t& best) {
    if (place < first || place > last || place == size) return;
    if (best == text.npos || distance(place) < distance(best)) best = place;
  };
  for_each_paragraph(text, [&](std::string_view part) {
    nearest(static_cast<std::size_t>(part.data() - text.data()), paragraph);
  });
  if (paragraph != text.npos) return paragraph;
  for_each_line(text, [&](std::string_view part) {
    nearest(static_cast<std::size_t>(part.data() - text.data()), line);
  });
  if (line != text.npos) return line;
  std::size_t cut = aim;
  const auto continues = [&] { return (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80; };
  while (cut > first && cut < size && aim - cut < 3 && continues()) --cut;  // UTF-8
  return cut;
}

// Hash of the words of `text`, the same however they are spaced.
inline std::uint64_t words_hash(std::string_view text) {
  Fnv1a hash;
  bool begun = false;
  bool gap = false;
  for (const char c : text) {
    if (is_space(c)) {
      gap = begun;
      continue;
    }
    if (gap) hash.add(' ');
    hash.add(c);
    begun = true;
    gap = false;
  }
  return hash.value();
}

// Calls use(run) for every 13 words of `text` in a row, from the first letter to the last.
template <class Use>
void for_each_run(std::string_view text, Use&& use) {
  constexpr std::size_t words = 13;
  std::array<std::size_t, words> begins{};  // of the last words, by their number modulo 13
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_space(text[i])) continue;
    if (i == 0 || is_space(text[i - 1])) begins[count++ % words] = i;
    if (i + 1 < text.size() && !is_space(text[i + 1])) continue;
    if (count >= words) {
      const std::size_t begin = begins[count % words];
      use(text.substr(begin, i + 1 - begin));
    }
  }
}

// The `validation` texts, in their order, without what stands in one of the `training` texts: paragraphs
// that are a paragraph or a line there, or share a run of 13 words with them. Of a paragraph of more than
// 2000 bytes, as of a text without blank lines, only such lines are dropped; of a line as long, only the
// runs.
inline std::string without_training_text(const std::vector<std::string_view>& training,
                                         const std::vector<std::string_view>& validation) {
  constexpr std::size_t longest_unit = 2000;

  // Hashes of the training text are kept only where the validation text may ask for them: where it set
  // the bit that their lowest bits number.
  std::size_t bytes = 1;
  for (const std::string_view text : validation) bytes += text.size();
  std::vector<bool> asked(std::bit_ceil(8 * bytes));
  std::unordered_set<std::uint64_t> found;
  const auto for_each_part = [](std::string_view text, const auto& use) {
    for_each_paragraph(text, use);
    for_each_line(text, use);
    for_each_run(text, use);
  };
  for (const std::string_view text : validation) {
    for_each_part(text, [&](std::string_view part) { asked[words_hash(part) % asked.size()] = true; });
  }
  for (const std::string_view text : training) {
    for_each_part(text, [&](std::string_view part) {
      const std::uint64_t hash = words_hash(part);
      if (asked[hash % asked.size()]) found.insert(hash);
    });
  }

  std::string kept;
  for (const std::string_view text : validation) {
    const auto place = [&](std::string_view part) { return part.data() - text.data(); };
    std::vector<bool> repeated(text.size());
    for_each_run(text, [&](std::string_view run) {
      if (!found.contains(words_hash(run))) return;
      std::fill_n(repeated.begin() + place(run), run.size(), true);
    });
    const auto keep = [&](std::string_view unit) {
      const auto begin = repeated.begin() + place(unit);
      const auto end = begin + static_cast<std::ptrdiff_t>(unit.size());
      if (found.contains(words_hash(unit)) || std::find(begin, end, true) != end) return;
      kept += unit;
    };
    for_each_paragraph(text, [&](std::string_view paragraph) {
      if (paragraph.size() <= longest_unit) return keep(paragraph);
      for_each_line(paragraph, [&](std::string_view line) {
        if (line.size() <= longest_unit) return keep(line);
        for (std::size_t i = 0; i < line.size(); ++i) {
          if (!repeated[static_cast<std::size_t>(place(line)) + i]) kept += line[i];
        }
      });
    });
  }
  return kept;
}

// The bytes of `files`, in their order; `source` names them together. Vocabulary 256.
inline Corpus load_text(const std::vector<std::filesystem::path>& files, const std::string& source) {
  std::set<std::string> contents;
  std::vector<std::string_view> training;
  std::vector<std::string_view> validation;
  for (const std::filesystem::path& path : files) {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    if (bytes.empty()) continue;
    const auto [content, is_new] =
        contents.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_new) continue;
    const std::string_view text = *content;
    const std::size_t cut = held_out_begin(text);
    training.push_back(text.substr(0, cut));
    validation.push_back(text.substr(cut));
  }
  if (training.empty()) throw Error(source + " is empty", "give a file or folder with text");

  Corpus corpus{.source = source, .vocabulary = 256, .training = {}, .validation = {}};
  const auto append = [](std::vector<Token>& tokens, std::string_view text) {
    const auto* first = reinterpret_cast<const unsigned char*>(text.data());
    tokens.insert(tokens.end(), first, first + text.size());
  };
  for (const std::string_view text : training) append(corpus.training, text);
  append(corpus.validation, without_training_text(training, validation));
  return corpus;
}

}  // namespace trilith::inline v0
