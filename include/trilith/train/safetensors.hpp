// Reads safetensors files: named tensors behind a JSON header.
//
//   8 bytes   length n of the header, little endian
//   n bytes   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …}
//   the rest  data, which the tensors fill without holes or overlaps; offsets count from its begin
//
// The format is that of https://huggingface.co/docs/safetensors. A SafetensorsFile has checked all of it
// when its constructor returns, so that whatever a damaged or hostile file says, reading its tensors stays
// within the file. The data itself may hold any bits, among them NaN.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/train/mapped_file.hpp>

namespace trilith::inline v0 {

static_assert(std::endian::native == std::endian::little,
              "safetensors and token shards are little endian; reading them here would need byte swaps");

// "(2, 3)"
inline std::string shape_text(std::span<const Index> shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(shape[d]);
  }
  return text + ")";
}

// IEEE binary16 to binary32, exact.
inline float float_from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7FFFu;
  std::uint32_t bits = (magnitude << 13) + (112u << 23);  // 112: difference of the exponents' biases
  if (magnitude >= 0x7C00u) {                             // infinity and NaN
    bits = (magnitude << 13) | 0x7F800000u;
  } else if (magnitude < 0x0400u) {  // zero and subnormals: multiples of 2^-24
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | bits);
}

inline float float_from_bf16(std::uint16_t brain) {
  return std::bit_cast<float>(std::uint32_t{brain} << 16);
}

// One tensor of an open SafetensorsFile, which must outlive it.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as the file spells it: "F32", "BF16", …
  std::vector<Index> shape;
  Index size = 0;                    // elements
  std::span<const std::byte> bytes;  // row by row; not aligned

  bool is_float() const { return dtype == "F32" || dtype == "F16" || dtype == "BF16" || dtype == "F64"; }

  // Elements [first, first + count) as float, in the order of `bytes`. Several threads may read at once.
  void read(Index first, Index count, float* to) const {
    if (first < 0 || count < 0 || first > size - count) {
      throw Error("tensor " + name + " has " + std::to_string(size) + " elements, but " +
                      std::to_string(count) + " from element " + std::to_string(first) + " on were asked for",
                  "read within the tensor's shape " + shape_text(shape));
    }
    if (dtype == "F32") {
      if (count > 0) std::memcpy(to, bytes.data() + first * 4, static_cast<std::size_t>(count) * 4);
    } else if (dtype == "F16") {
      convert<std::uint16_t>(first, count, to, float_from_f16);
    } else if (dtype == "BF16") {
      convert<std::uint16_t>(first, count, to, float_from_bf16);
    } else if (dtype == "F64") {
      convert<double>(first, count, to, [](double x) { return static_cast<float>(x); });
    } else {
      throw Error("tensor " + name + " is of type " + dtype + ", which is not read as float",
                  "convert it to F32, F16, BF16 or F64");
    }
  }

 private:
  template <class Stored, class Convert>
  void convert(Index first, Index count, float* to, Convert&& to_float) const {
    const std::byte* from = bytes.data() + first * static_cast<Index>(sizeof(Stored));
    for (Index i = 0; i < count; ++i, from += sizeof(Stored)) {
      Stored element;
      std::memcpy(&element, from, sizeof(Stored));
      to[i] = to_float(element);
    }
  }
};

class SafetensorsFile {
 public:
  // Throws Error unless `path` is a whole safetensors file.
  explicit SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
    const std::span<const std::byte> bytes = file_.bytes();
    std::uint64_t header = 0;
    if (bytes.size() < sizeof(header)) {
      refuse("it has " + std::to_string(bytes.size()) + " bytes, fewer than the 8 of a header length");
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    const std::uint64_t rest = bytes.size() - sizeof(header);
    if (header > rest) {
      refuse("its header would be " + std::to_string(header) + " bytes long, but only " +
             std::to_string(rest) + " follow");
    }
    if (header > longest_header) {
      refuse("its header would be " + std::to_string(header) + " bytes long, more than the " +
             std::to_string(longest_header) + " that the format allows");
    }
    read_header(reinterpret_cast<const char*>(bytes.data()) + sizeof(header),
                static_cast<std::size_t>(header), bytes.subspan(sizeof(header) + header));
    check_layout(rest - header);
    for (const SafetensorsTensor& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }

  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // In the order of their data.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }

  // Null where the file has no such tensor.
  const SafetensorsTensor* find(std::string_view name) const {
    const auto place = by_name_.find(name);
    return place == by_name_.end() ? nullptr : place->second;
  }

  const SafetensorsTensor& tensor(std::string_view name) const {
    const SafetensorsTensor* found = find(name);
    if (found == nullptr) {
      throw Error(path_.string() + " has no tensor " + std::string(name),
                  "give a file that has it; this one has " + std::to_string(tensors_.size()) + " tensors");
    }
    return *found;
  }

  // The strings of `__metadata__`; what else stands there is left out.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  using Json = nlohmann::json;

  static constexpr std::uint64_t longest_header = 100'000'000;

  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(path_.string() + " is not a sound safetensors file: " + reason,
                "give a file in safetensors format, or fetch it again if it is damaged");
  }

  // Bytes of an element; 0 for a type that is not known.
  static std::uint64_t element_bytes(std::string_view dtype) {
    static const std::map<std::string_view, std::uint64_t> bytes = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
        {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
        {"F32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8},     {"C64", 8},
    };
    const auto place = bytes.find(dtype);
    return place == bytes.end() ? 0 : place->second;
  }

  void read_header(const char* text, std::size_t length, std::span<const std::byte> data) {
    if (length == 0 || text[0] != '{') refuse("its header does not begin with {");
    // The parser keeps the last of two equal keys in silence, and builds any depth: both end here.
    std::vector<std::set<std::string>> keys(2);  // of the object now open at each depth
    const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
        if (depth > 2) refuse("its header is nested deeper than the format allows");
        if (depth < 2) keys[static_cast<std::size_t>(depth)].clear();
      } else if (event == Json::parse_event_t::key && depth <= 2) {
        const auto& key = value.get_ref<const std::string&>();
        if (!keys[static_cast<std::size_t>(depth - 1)].insert(key).second) {
          refuse("its header has the key \"" + key + "\" twice");
        }
      }
      return true;
    };
    Json header;
    try {
      header = Json::parse(text, text + length, watch);
    } catch (const Json::parse_error& error) {
      refuse("its header is not JSON at byte " + std::to_string(error.byte));
    } catch (const Json::exception&) {
      refuse("its header is not JSON that can be read, such as a number of 400 digits");
    }
    tensors_.reserve(header.size());
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry);
      } else {
        tensors_.push_back(read_entry(name, entry, data));
      }
    }
  }

  void read_metadata(const Json& entry) {
    if (!entry.is_object()) return;
    for (const auto& [key, value] : entry.items()) {
      if (value.is_string()) metadata_.emplace(key, value.get<std::string>());
    }
  }

  SafetensorsTensor read_entry(const std::string& name, const Json& entry,
                               std::span<const std::byte> data) const {
    const auto field = [&](const char* key, auto&& is_right, const char* right) -> const Json& {
      const auto place = entry.is_object() ? entry.find(key) : entry.end();
      if (place == entry.end() || !is_right(*place)) {
        refuse("tensor " + name + " has no \"" + key + "\" that is " + right);
      }
      return *place;
    };
    const auto is_count = [](const Json& value) {
      return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
    };
    const auto is_counts = [&](const Json& value) {
      return value.is_array() && std::all_of(value.begin(), value.end(), is_count);
    };

    SafetensorsTensor tensor;
    tensor.name = name;
    tensor.dtype = field(
                       "dtype", [](const Json& v) { return v.is_string(); }, "a string")
                       .get<std::string>();
    const std::uint64_t width = element_bytes(tensor.dtype);
    if (width == 0) refuse("tensor " + name + " is of the unknown type \"" + tensor.dtype + "\"");

    const Json& shape = field("shape", is_counts, "a list of numbers from 0 on");
    std::int64_t size = 1;
    std::int64_t bytes = 0;
    for (const Json& extent : shape) {
      tensor.shape.push_back(extent.get<Index>());
      if (__builtin_mul_overflow(size, tensor.shape.back(), &size)) size = -1;
      if (size < 0) break;
    }
    if (size < 0 || __builtin_mul_overflow(size, static_cast<std::int64_t>(width), &bytes)) {
      refuse("tensor " + name + " has a shape of more than 2^63 bytes");
    }
    tensor.size = size;

    const Json& offsets = field(
        "data_offsets", [&](const Json& v) { return is_counts(v) && v.size() == 2; },
        "a pair of numbers from 0 on");
    const auto begin = offsets[0].get<std::int64_t>();
    const auto end = offsets[1].get<std::int64_t>();
    if (end - begin != bytes) {
      refuse("tensor " + name + " of shape " + shape_text(tensor.shape) + " and type " + tensor.dtype +
             " needs " + std::to_string(bytes) + " bytes, but its data_offsets (" + std::to_string(begin) +
             ", " + std::to_string(end) + ") span " + std::to_string(end - begin));
    }
    if (end > static_cast<std::int64_t>(data.size())) {
      refuse("it is truncated: the data of tensor " + name + " ends at byte " + std::to_string(end) +
             ", but only " + std::to_string(data.size()) + " are there");
    }
    tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
    return tensor;
  }

  // Sorts the tensors by their data, which must fill the file.
  void check_layout(std::uint64_t data_size) {
    const auto end = [](const SafetensorsTensor& t) { return t.bytes.data() + t.bytes.size(); };
    std::stable_sort(tensors_.begin(), tensors_.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.bytes.data(), end(a)) < std::pair(b.bytes.data(), end(b));
    });
    const std::byte* filled = file_.bytes().data() + (file_.bytes().size() - data_size);
    for (const SafetensorsTensor& tensor : tensors_) {
      if (tensor.bytes.data() < filled) refuse("the data of tensor " + tensor.name + " overlaps another");
      if (tensor.bytes.data() > filled) {
        refuse(std::to_string(tensor.bytes.data() - filled) + " bytes before the data of tensor " +
               tensor.name + " belong to no tensor");
      }
      filled = end(tensor);
    }
    const auto surplus = file_.bytes().data() + file_.bytes().size() - filled;
    if (surplus > 0) refuse("its last " + std::to_string(surplus) + " bytes belong to no tensor");
  }

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, const SafetensorsTensor*, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trilith::inline v0
