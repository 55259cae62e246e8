// Reads the files of a fixture.
//
// A safetensors file is read here by a few lines of its own, so that the library's reader has something to be
// compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "test/reference/weights.hpp"

namespace trilith::reference {

// Among the runfiles of a Bazel test, or below the current folder.
inline std::filesystem::path fixture_folder(const std::string& name) {
  const std::filesystem::path folder = "test/reference/" + name;
  const char* runfiles = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (runfiles == nullptr || workspace == nullptr) return folder;
  return std::filesystem::path(runfiles) / workspace / folder;
}

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tensors whose names begin with `prefix`, by what follows it. Eight bytes hold the length of a JSON
// header, little-endian as this machine; it gives each tensor's place in the bytes that follow.
inline Weights read_safetensors(const std::filesystem::path& path, const std::string& prefix) {
  const std::string bytes = contents(path);
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const std::size_t data = sizeof header_size + header_size;
  Weights weights;
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));
  for (const auto& [name, tensor] : header.items()) {
    if (!name.starts_with(prefix) || name == "__metadata__") continue;
    const auto begin = tensor["data_offsets"][0].get<std::size_t>();
    const auto end = tensor["data_offsets"][1].get<std::size_t>();
    std::vector<float> values((end - begin) / sizeof(float));
    std::memcpy(values.data(), &bytes.at(data + begin), end - begin);
    weights[name.substr(prefix.size())] = Values(values.begin(), values.end());
  }
  return weights;
}

}  // namespace trilith::reference
