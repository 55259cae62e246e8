// The files of a folder, in an order that does not depend on the machine.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include <trilith/core/error.hpp>

namespace trilith::inline v0 {

// `path` itself if it is a file; of a folder, the regular files in it and below it by ascending path, each
// once however many links lead to it. Names that begin with a dot are left out, and links to folders are
// not followed. Throws Error if there is no file or a folder cannot be read.
inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  try {
    if (!fs::is_directory(path)) {
      if (!fs::exists(path)) throw Error(path.string() + " does not exist", "check the path");
      return {path};
    }
    std::vector<fs::path> found;
    for (fs::recursive_directory_iterator entry(path), end; entry != end; ++entry) {
      std::error_code ignored;  // a link that leads nowhere is no file
      if (entry->path().filename().string().starts_with('.')) {
        entry.disable_recursion_pending();
      } else if (entry->is_regular_file(ignored)) {
        found.push_back(entry->path());
      }
    }
    std::sort(found.begin(), found.end());

    std::vector<fs::path> files;
    std::set<fs::path> seen;
    for (const fs::path& file : found) {
      if (seen.insert(fs::canonical(file)).second) files.push_back(file);
    }
    if (files.empty()) throw Error(path.string() + " holds no files", "give a folder with files");
    return files;
  } catch (const fs::filesystem_error& error) {
    const fs::path& named = error.path1().empty() ? path : error.path1();
    throw Error(named.string() + " cannot be read: " + error.code().message(),
                "check the path and the permissions");
  }
}

}  // namespace trilith::inline v0
