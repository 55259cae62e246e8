// A corpus from whatever the user names: a text, token shards, or a folder of either.
#pragma once

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <vector>

#include <trilith/train/corpus.hpp>
#include <trilith/train/file_list.hpp>
#include <trilith/train/text_corpus.hpp>
#include <trilith/train/token_shards.hpp>

namespace trilith::inline v0 {

// The licence texts that every Debian machine has.
inline constexpr const char* debian_license_texts = "/usr/share/common-licenses";

// A folder with token shards is read as these alone, any other as text. Throws Error if there is nothing
// to read; see check_length() for too little.
inline Corpus load_corpus(const std::filesystem::path& path) {
  const std::vector<std::filesystem::path> files = files_below(path);
  std::vector<std::filesystem::path> shards;
  std::copy_if(files.begin(), files.end(), std::back_inserter(shards), is_token_shard);
  return shards.empty() ? load_text(files, path.string()) : load_token_shards(shards, path.string());
}

}  // namespace trilith::inline v0
