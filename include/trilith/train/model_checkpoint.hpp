// What checkpoints of all models share: one safetensors file whose tensors are those of the model, and what
// they do not say, from a `config.json` beside the file, from the file's own metadata, or from the caller;
// those that speak must agree.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>
#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/train/mapped_file.hpp>
#include <trilith/train/safetensors.hpp>

namespace trilith::inline v0 {

// What a kind of model is called, in messages and in files.
struct CheckpointKind {
  std::string model;           // "GPT-2"
  std::string hugging_face;    // "GPT2LMHeadModel"
  std::string tensors;         // the function that lists its tensors
  std::string layout;          // of the weights of its linears: "(in, out)"
  std::string prefix;          // that may precede every name
  std::string layers;          // what precedes the number of a layer
  std::string first_of_layer;  // one of a layer's tensors, after its number
};

class ModelCheckpoint {
 public:
  // By Trilith's name, whether or not the file has the prefix.
  const SafetensorsTensor& tensor(std::string_view name) const {
    const SafetensorsTensor* found = find(name);
    if (found == nullptr) {
      throw Error(this->name() + " has no tensor " + std::string(name),
                  "ask for the names that " + kind_.tensors + "() lists");
    }
    return *found;
  }

 protected:
  using Json = nlohmann::json;
  using Ignored = std::function<bool(std::string_view name)>;

  // `ignored`: tensors of the file that say nothing of the model.
  ModelCheckpoint(const std::filesystem::path& path, CheckpointKind kind, const Ignored& ignored = {})
      : kind_(std::move(kind)), file_(path) {
    for (const SafetensorsTensor& tensor : file_.tensors()) {
      std::string_view own = tensor.name;
      if (own.starts_with(kind_.prefix)) own.remove_prefix(kind_.prefix.size());
      if (ignored && ignored(own)) continue;
      if (!tensors_.emplace(own, &tensor).second) {
        refuse("it has the tensor " + std::string(own) + " with and without the prefix " + kind_.prefix);
      }
    }
    read_config();
  }

  // A number that the tensors do not say.
  template <class T>
  struct Stated {
    const char* key;   // in config.json and in the file's metadata
    const char* what;  // after the number, in messages
    T value = {};
    std::string from = {};  // empty while nobody has said it
  };

  std::string name() const { return file_.path().string(); }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(name() + " is not a " + kind_.model + " that can be loaded: " + reason,
                "give a " + kind_.model + " with the tensors of Hugging Face's " + kind_.hugging_face);
  }

  const SafetensorsTensor* find(std::string_view name) const {
    const auto place = tensors_.find(name);
    return place == tensors_.end() ? nullptr : place->second;
  }

  // The extents of a matrix that must be there. what: of its rows and columns, for messages.
  std::pair<int, int> extents(const std::string& name, const char* what) const {
    const SafetensorsTensor* tensor = find(name);
    if (tensor == nullptr) {
      std::string has = std::to_string(file_.tensors().size()) + " tensors";
      if (!file_.tensors().empty()) has += ", the first of them " + file_.tensors().front().name;
      refuse("it has no tensor " + name + " (it has " + has + ")");
    }
    const std::vector<Index>& shape = tensor->shape;
    const auto fits = [](Index n) { return n > 0 && n <= std::numeric_limits<int>::max() / 4; };
    if (shape.size() != 2 || !fits(shape[0]) || !fits(shape[1])) {
      refuse(name + " has shape " + shape_text(shape) + ", which is not " + what);
    }
    return {static_cast<int>(shape[0]), static_cast<int>(shape[1])};
  }

  // The layer that a tensor belongs to.
  static std::optional<int> layer_of(std::string_view name, std::string_view layers) {
    if (!name.starts_with(layers)) return {};
    name.remove_prefix(layers.size());
    const std::size_t dot = name.find('.');
    const auto layer = number_in<int>(name.substr(0, dot));
    return dot != name.npos && layer && *layer >= 0 ? layer : std::nullopt;
  }

  int count_layers() const {
    int layers = 0;
    for (const auto& [name, tensor] : tensors_) {
      const auto layer = layer_of(name, kind_.layers);
      if (!layer) continue;
      // So that a name cannot make the list of what is missing absurdly long.
      if (static_cast<std::size_t>(*layer) >= tensors_.size()) {
        refuse("it has a tensor " + name + ", but only " + std::to_string(tensors_.size()) +
               " tensors in all");
      }
      layers = std::max(layers, *layer + 1);
    }
    if (layers == 0) refuse("it has no layers: no tensor " + kind_.layers + "0." + kind_.first_of_layer);
    return layers;
  }

  // That the file has `expected` and nothing else, but for `also`, which may be there.
  void check_tensors(const std::vector<NamedShape>& expected, int hidden, int layers,
                     std::string_view also) const {
    std::size_t missing = 0;
    std::string first_missing;
    for (const auto& [name, shape] : expected) {
      const SafetensorsTensor* tensor = find(name);
      if (tensor == nullptr) {
        if (missing++ == 0) first_missing = name;
        continue;
      }
      if (tensor->shape != shape) {
        refuse("tensor " + tensor->name + " has shape " + shape_text(tensor->shape) + ", where a " +
               kind_.model + " of hidden size " + std::to_string(hidden) + " has " + shape_text(shape) +
               ", weights as " + kind_.layout);
      }
      if (!tensor->is_float()) {
        refuse("tensor " + tensor->name + " is of type " + tensor->dtype + ", not F32, F16, BF16 or F64");
      }
    }
    if (missing > 0) {
      refuse("tensor " + first_missing + " is missing" +
             (missing > 1 ? ", and " + std::to_string(missing - 1) + " more" : ""));
    }
    if (tensors_.size() == expected.size()) return;
    std::set<std::string_view> known{also};
    for (const NamedShape& tensor : expected) known.insert(tensor.name);
    for (const auto& [name, tensor] : tensors_) {
      if (!known.contains(name)) {
        refuse("it also has a tensor " + tensor->name + ", which a " + kind_.model + " of " +
               std::to_string(layers) + " layers has no use for");
      }
    }
  }

  // Where the head is tied to the embedding, a second copy says nothing new.
  void check_tied_head(const std::string& head, const std::string& embedding, const std::string& who) const {
    const SafetensorsTensor* copy = find(head);
    if (copy == nullptr) return;
    const SafetensorsTensor& original = tensor(embedding);
    if (copy->dtype != original.dtype || copy->shape != original.shape ||
        !std::equal(copy->bytes.begin(), copy->bytes.end(), original.bytes.begin())) {
      refuse("its output head " + head + " differs from " + embedding + ", to which " + who + " ties it");
    }
  }

  // `value` is nothing where the source does not say a number.
  template <class T>
  void agree(Stated<T>& stated, std::optional<T> value, const std::string& source) const {
    if (!value) {
      const std::string kind = std::is_integral_v<T> ? "a whole number" : "a number";
      throw Error(name() + " cannot be loaded: " + stated.key + " in " + source + " is not " + kind,
                  "write " + kind + " there, or nothing");
    }
    if (!stated.from.empty() && *value != stated.value) {
      throw Error(name() + " has " + text(stated.value) + " " + stated.what + " by " + stated.from +
                      ", but " + text(*value) + " by " + source,
                  "make the two agree on what the model was trained with");
    }
    stated.value = *value;
    stated.from = source;
  }

  // Takes what metadata and config say.
  template <class T>
  void read(Stated<T>& stated) const {
    const auto own = file_.metadata().find(stated.key);
    if (own != file_.metadata().end()) agree(stated, number_in<T>(own->second), "its metadata");
    const auto place = config_.find(stated.key);
    if (place != config_.end()) agree(stated, number<T>(*place), config_path_.string());
  }

  // A config.json may be missing, and may leave out what it has nothing to say on.
  void expect(const char* key, const Json& value, const Json& or_else) const {
    const auto place = config_.find(key);
    if (place == config_.end() || *place == value || *place == or_else) return;
    // A list or an object is not printed: it may be of any size and depth.
    const std::string found = place->is_structured()
                                  ? "a list or an object"
                                  : place->dump(-1, ' ', false, Json::error_handler_t::replace);
    throw Error(config_path_.string() + " says " + key + " = " + found + ", but " +
                    file_.path().filename().string() + " can only be loaded with " + value.dump(),
                "give a config.json and a checkpoint of one " + kind_.model);
  }
  void expect(const char* key, const Json& value) const { expect(key, value, value); }

  const Json& config() const { return config_; }
  const std::filesystem::path& config_path() const { return config_path_; }

  template <class T>
  static std::optional<T> number(const Json& json) {
    if constexpr (std::is_integral_v<T>) {
      const bool sound = json.is_number_unsigned() && json.get<std::uint64_t>() <= std::uint64_t{1} << 30;
      return sound ? std::optional(json.get<T>()) : std::nullopt;
    } else {
      return json.is_number() ? std::optional(json.get<T>()) : std::nullopt;
    }
  }

 private:
  template <class T>
  static std::optional<T> number_in(std::string_view text) {
    T number = {};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
    return number;
  }

  template <class T>
  static std::string text(T number) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
  }

  void read_config() {
    config_path_ = file_.path().parent_path() / "config.json";
    std::error_code error;
    if (std::filesystem::status(config_path_, error).type() == std::filesystem::file_type::not_found) return;
    const MappedFile file(config_path_);
    const auto* text = reinterpret_cast<const char*>(file.bytes().data());
    config_ = Json::parse(text, text + file.bytes().size(), nullptr, false);
    if (!config_.is_object()) {
      throw Error(config_path_.string() + " is not a JSON object",
                  "repair it, or move it away from " + file_.path().filename().string());
    }
  }

  CheckpointKind kind_;
  SafetensorsFile file_;
  std::map<std::string, const SafetensorsTensor*, std::less<>> tensors_;  // by Trilith's names
  std::filesystem::path config_path_;
  Json config_ = Json::object();  // empty where there is none
};

}  // namespace trilith::inline v0
