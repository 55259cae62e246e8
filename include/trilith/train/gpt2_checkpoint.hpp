// GPT-2 weights in a safetensors file, with the names and layouts of Hugging Face's transformers.
//
// The names are those of nn/gpt_tensors.hpp, with or without the prefix `transformer.`.
//
// The one thing that the tensors do not say is the number of heads. It is taken from a `config.json` beside
// the file, from `n_head` in the file's own metadata, and from the caller; those that speak must agree.
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
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>
#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/gpt_shape.hpp>
#include <trilith/nn/gpt_tensors.hpp>
#include <trilith/train/mapped_file.hpp>
#include <trilith/train/safetensors.hpp>

namespace trilith::inline v0 {

// An open GPT-2 checkpoint: every weight is there, in its right shape and readable as float.
class Gpt2Checkpoint {
 public:
  explicit Gpt2Checkpoint(const std::filesystem::path& path, std::optional<int> heads = {}) : file_(path) {
    collect();
    derive_shape();
    check_tensors();
    check_output_head();
    if (heads) agree_on_heads(*heads, "the number asked for");
    const auto own = file_.metadata().find("n_head");
    if (own != file_.metadata().end()) {
      agree_on_heads(whole_number(own->second), "its metadata");
    }
    read_config(path.parent_path() / "config.json");
    if (heads_from_.empty()) {
      throw Error(name() + " does not say how many attention heads the model has",
                  "put the model's config.json beside it, or give the number of heads");
    }
    if (shape_.heads < 1 || shape_.hidden % shape_.heads != 0) {
      throw Error(name() + " has hidden size " + std::to_string(shape_.hidden) +
                      ", which cannot be split over " + std::to_string(shape_.heads) + " heads (from " +
                      heads_from_ + ")",
                  "give the number of heads that the model was trained with");
    }
  }

  const GptShape& shape() const { return shape_; }

  // By Trilith's name, whether or not the file has the prefix.
  const SafetensorsTensor& tensor(std::string_view name) const {
    const auto place = tensors_.find(name);
    if (place == tensors_.end()) {
      throw Error(this->name() + " has no tensor " + std::string(name),
                  "ask for the names that gpt2_tensors() lists");
    }
    return *place->second;
  }

 private:
  using Json = nlohmann::json;

  static constexpr std::string_view prefix = "transformer.";
  static constexpr std::string_view output_head = "lm_head.weight";

  std::string name() const { return file_.path().string(); }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(name() + " is not a GPT-2 that can be loaded: " + reason,
                "give a GPT-2 with the tensors of Hugging Face's GPT2LMHeadModel");
  }

  static std::optional<int> whole_number(std::string_view text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
    return number;
  }

  // The layer of "h.{i}.…".
  static std::optional<int> layer_of(std::string_view name) {
    if (!name.starts_with("h.")) return {};
    name.remove_prefix(2);
    const std::size_t dot = name.find('.');
    const auto layer = whole_number(name.substr(0, dot));
    return dot != name.npos && layer && *layer >= 0 ? layer : std::nullopt;
  }

  // Causal masks, which old versions of transformers saved with the weights.
  static bool is_mask(std::string_view name) {
    return layer_of(name) && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  }

  void collect() {
    for (const SafetensorsTensor& tensor : file_.tensors()) {
      std::string_view own = tensor.name;
      if (own.starts_with(prefix)) own.remove_prefix(prefix.size());
      if (is_mask(own)) continue;
      if (!tensors_.emplace(own, &tensor).second) {
        refuse("it has the tensor " + std::string(own) + " with and without the prefix " +
               std::string(prefix));
      }
    }
  }

  void derive_shape() {
    const auto extents = [&](const char* name) {
      const auto place = tensors_.find(name);
      if (place == tensors_.end()) {
        std::string has = std::to_string(file_.tensors().size()) + " tensors";
        if (!file_.tensors().empty()) has += ", the first of them " + file_.tensors().front().name;
        refuse(std::string("it has no tensor ") + name + " (it has " + has + ")");
      }
      const std::vector<Index>& shape = place->second->shape;
      const auto fits = [](Index n) { return n > 0 && n <= std::numeric_limits<int>::max() / 4; };
      if (shape.size() != 2 || !fits(shape[0]) || !fits(shape[1])) {
        refuse(std::string(name) + " has shape " + shape_text(shape) + ", which is not (entries, hidden)");
      }
      return std::pair(static_cast<int>(shape[0]), static_cast<int>(shape[1]));
    };
    std::tie(shape_.vocabulary, shape_.hidden) = extents("wte.weight");
    shape_.positions = extents("wpe.weight").first;
    shape_.layers = 0;
    for (const auto& [name, tensor] : tensors_) {
      const auto layer = layer_of(name);
      if (!layer) continue;
      // So that a name cannot make the list of what is missing absurdly long.
      if (static_cast<std::size_t>(*layer) >= tensors_.size()) {
        refuse("it has a tensor " + name + ", but only " + std::to_string(tensors_.size()) +
               " tensors in all");
      }
      shape_.layers = std::max(shape_.layers, *layer + 1);
    }
    if (shape_.layers == 0) refuse("it has no layers: no tensor h.0.ln_1.weight");
  }

  void check_tensors() const {
    const std::vector<NamedShape> expected = gpt2_tensors(shape_);
    std::size_t missing = 0;
    std::string first_missing;
    for (const auto& [name, shape] : expected) {
      const auto place = tensors_.find(name);
      if (place == tensors_.end()) {
        if (missing++ == 0) first_missing = name;
        continue;
      }
      const SafetensorsTensor& tensor = *place->second;
      if (tensor.shape != shape) {
        refuse("tensor " + tensor.name + " has shape " + shape_text(tensor.shape) +
               ", where a GPT-2 of hidden size " + std::to_string(shape_.hidden) + " has " +
               shape_text(shape) + ", weights as (in, out)");
      }
      if (!tensor.is_float()) {
        refuse("tensor " + tensor.name + " is of type " + tensor.dtype + ", not F32, F16, BF16 or F64");
      }
    }
    if (missing > 0) {
      refuse("tensor " + first_missing + " is missing" +
             (missing > 1 ? ", and " + std::to_string(missing - 1) + " more" : ""));
    }
    if (tensors_.size() == expected.size()) return;
    std::set<std::string_view> known{output_head};
    for (const NamedShape& tensor : expected) known.insert(tensor.name);
    for (const auto& [name, tensor] : tensors_) {
      if (!known.contains(name)) {
        refuse("it also has a tensor " + tensor->name + ", which a GPT-2 of " +
               std::to_string(shape_.layers) + " layers has no use for");
      }
    }
  }

  // GPT-2's output head is its token embedding, so that a second copy says nothing new.
  void check_output_head() const {
    const auto place = tensors_.find(output_head);
    if (place == tensors_.end()) return;
    const SafetensorsTensor& head = *place->second;
    const SafetensorsTensor& embedding = tensor("wte.weight");
    if (head.dtype != embedding.dtype || head.shape != embedding.shape ||
        !std::equal(head.bytes.begin(), head.bytes.end(), embedding.bytes.begin())) {
      refuse("its output head lm_head.weight differs from wte.weight, to which GPT-2 ties it");
    }
  }

  // `heads` is nothing where the source does not say a whole number.
  void agree_on_heads(std::optional<int> heads, const std::string& source) {
    if (!heads) {
      throw Error(name() + " cannot be loaded: n_head in " + source + " is not a whole number",
                  "write the number of heads there, or nothing");
    }
    if (!heads_from_.empty() && *heads != shape_.heads) {
      throw Error(name() + " has " + std::to_string(shape_.heads) + " heads by " + heads_from_ + ", but " +
                      std::to_string(*heads) + " by " + source,
                  "make the two agree on the heads that the model was trained with");
    }
    shape_.heads = *heads;
    heads_from_ = source;
  }

  // A config.json may be missing, and may leave out what it has nothing to say on.
  void read_config(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found) return;
    const MappedFile file(path);
    const auto* text = reinterpret_cast<const char*>(file.bytes().data());
    const Json config = Json::parse(text, text + file.bytes().size(), nullptr, false);
    if (!config.is_object()) {
      throw Error(path.string() + " is not a JSON object",
                  "repair it, or move it away from " + file_.path().filename().string());
    }
    const auto expect = [&](const char* key, const Json& value, const Json& or_else) {
      const auto place = config.find(key);
      if (place == config.end() || *place == value || *place == or_else) return;
      // A list or an object is not printed: it may be of any size and depth.
      const std::string found = place->is_structured()
                                    ? "a list or an object"
                                    : place->dump(-1, ' ', false, Json::error_handler_t::replace);
      throw Error(path.string() + " says " + key + " = " + found + ", but " +
                      file_.path().filename().string() + " can only be loaded with " + value.dump(),
                  "give a config.json and a checkpoint of one GPT-2");
    };
    expect("model_type", "gpt2", "gpt2");
    expect("vocab_size", shape_.vocabulary, shape_.vocabulary);
    expect("n_positions", shape_.positions, shape_.positions);
    expect("n_embd", shape_.hidden, shape_.hidden);
    expect("n_layer", shape_.layers, shape_.layers);
    expect("n_inner", shape_.feed_forward(), nullptr);
    expect("activation_function", "gelu_new", "gelu_pytorch_tanh");
    expect("layer_norm_epsilon", 1e-5, 1e-5);
    expect("scale_attn_weights", true, true);
    expect("scale_attn_by_inverse_layer_idx", false, false);
    expect("tie_word_embeddings", true, true);
    expect("add_cross_attention", false, false);
    const auto heads = config.find("n_head");
    if (heads != config.end()) {
      const bool sound = heads->is_number_unsigned() && heads->get<std::uint64_t>() <= std::uint64_t{1} << 30;
      agree_on_heads(sound ? std::optional(heads->get<int>()) : std::nullopt, path.string());
    }
  }

  SafetensorsFile file_;
  std::map<std::string, const SafetensorsTensor*, std::less<>> tensors_;  // by Trilith's names
  GptShape shape_{.heads = 0};
  std::string heads_from_;
};

}  // namespace trilith::inline v0
