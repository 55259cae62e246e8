// Checkpoints to be changed before they are written, for tests of what reads them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/core/tensor.hpp>

#include "test/support/files.hpp"

namespace trilith::test {

struct Entry {
  std::vector<Index> shape;
  std::string dtype;
  std::string bytes;
};

// By name, so that their order is not the model's.
using FileTensors = std::map<std::string, Entry>;

// first, first + 1, …
inline Entry floats(const std::vector<Index>& extents, float first = 0) {
  std::vector<float> values(1);
  for (const Index extent : extents) values.resize(values.size() * static_cast<std::size_t>(extent));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return {extents, "F32", bytes_of(values)};
}

// A safetensors file of them.
inline std::string safetensors_of(const FileTensors& tensors,
                                  const std::map<std::string, std::string>& metadata = {}) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, entry] : tensors) {
    header[name] = {{"dtype", entry.dtype},
                    {"shape", entry.shape},
                    {"data_offsets", {data.size(), data.size() + entry.bytes.size()}}};
    data += entry.bytes;
  }
  if (!metadata.empty()) header["__metadata__"] = metadata;
  return safetensors_bytes(header.dump(), data);
}

}  // namespace trilith::test
