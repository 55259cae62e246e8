// Token shards in llm.c's format: a header of 256 int32 (20240520, version 1, number of tokens, zeros), then
// the tokens as uint16, little endian.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/train/corpus.hpp>
#include <trilith/train/mapped_file.hpp>

namespace trilith::inline v0 {

inline constexpr std::int32_t token_shard_magic = 20240520;

// By its name or its first bytes, which no UTF-8 text has; a file so called may still be damaged.
inline bool is_token_shard(const std::filesystem::path& path) {
  if (path.extension() == ".bin") return true;
  const MappedFile file(path);
  std::int32_t magic = 0;
  if (file.bytes().size() >= sizeof(magic)) std::memcpy(&magic, file.bytes().data(), sizeof(magic));
  return magic == token_shard_magic;
}

// Appends the tokens of a shard. Throws Error unless the shard is whole.
inline void append_token_shard(const std::filesystem::path& path, std::vector<Token>& tokens) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(path.string() + " is not a sound token shard: " + reason,
                "give shards as llm.c writes them, or fetch this one again if it is damaged");
  };
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  std::array<std::int32_t, 256> header{};
  if (bytes.size() < sizeof(header)) {
    refuse("it has " + std::to_string(bytes.size()) + " bytes, fewer than the " +
           std::to_string(sizeof(header)) + " of the header");
  }
  std::memcpy(header.data(), bytes.data(), sizeof(header));
  const auto [magic, shard_version, count] = std::array{header[0], header[1], header[2]};
  if (magic != token_shard_magic) {
    refuse("it begins with the number " + std::to_string(magic) + ", not " +
           std::to_string(token_shard_magic));
  }
  if (shard_version != 1) refuse("it is of version " + std::to_string(shard_version) + ", not 1");
  if (count < 1) refuse("its header counts " + std::to_string(count) + " tokens");
  const std::size_t expected = sizeof(header) + static_cast<std::size_t>(count) * sizeof(Token);
  if (bytes.size() != expected) {
    refuse("its header counts " + std::to_string(count) + " tokens, which makes " + std::to_string(expected) +
           " bytes, but it has " + std::to_string(bytes.size()) +
           (bytes.size() < expected ? " (truncated)" : ""));
  }
  const std::size_t before = tokens.size();
  tokens.resize(before + static_cast<std::size_t>(count));
  std::memcpy(tokens.data() + before, bytes.data() + sizeof(header), expected - sizeof(header));
}

// The tokens of `files`, in their order; `source` names them together. Files with `val` in their names are
// for validation if others are not; otherwise the last tenth of all tokens is. The vocabulary is GPT-2's,
// for which the format was made; tokens of another one are for check_tokens() to find.
inline Corpus load_token_shards(const std::vector<std::filesystem::path>& files, const std::string& source) {
  const auto is_validation = [](const std::filesystem::path& path) {
    return path.filename().string().find("val") != std::string::npos;
  };
  const auto held_out = std::count_if(files.begin(), files.end(), is_validation);
  const bool by_name = held_out > 0 && held_out < static_cast<std::ptrdiff_t>(files.size());

  Corpus corpus{.source = source, .vocabulary = 50257, .training = {}, .validation = {}};
  std::uintmax_t room = 0;
  for (const std::filesystem::path& path : files) room += MappedFile(path).bytes().size();
  corpus.training.reserve(room / sizeof(Token));
  for (const std::filesystem::path& path : files) {
    append_token_shard(path, by_name && is_validation(path) ? corpus.validation : corpus.training);
  }
  if (!by_name) {
    const auto tenth = static_cast<std::ptrdiff_t>(corpus.training.size() / 10);
    corpus.validation.assign(corpus.training.end() - tenth, corpus.training.end());
    corpus.training.resize(corpus.training.size() - static_cast<std::size_t>(tenth));
  }
  return corpus;
}

}  // namespace trilith::inline v0
