// Checkpoints of GPT-2: which files load, with which shape, and what is said of those that do not.

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/nn/gpt_tensors.hpp>
#include <trilith/train/gpt2_checkpoint.hpp>
#include <trilith/train/safetensors_writer.hpp>

#include "test/support/checkpoints.hpp"
#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::Entry;
using test::error_of;
using test::floats;
using test::TempFolder;
using Tensors = test::FileTensors;
using testing::AllOf;
using testing::HasSubstr;

constexpr GptShape shape{.layers = 2, .hidden = 6, .heads = 3, .positions = 5, .vocabulary = 7};

Tensors gpt2(const std::string& prefix = "") {
  Tensors tensors;
  for (const NamedShape& tensor : gpt2_tensors(shape)) {
    tensors[prefix + tensor.name] = floats(tensor.shape, static_cast<float>(tensors.size()) * 1000);
  }
  return tensors;
}

const std::map<std::string, std::string> three_heads{{"n_head", "3"}};

class Gpt2 : public testing::Test {
 protected:
  std::filesystem::path write(const Tensors& tensors,
                              const std::map<std::string, std::string>& metadata = three_heads) {
    return folder_.write("model.safetensors", test::safetensors_of(tensors, metadata));
  }

  std::string refusal(const Tensors& tensors) {
    const auto path = write(tensors);
    return error_of([&] { Gpt2Checkpoint checkpoint(path); });
  }

  // What is said of the model with a config.json, "{…}" or anything else, beside it.
  std::string refusal_of_config(const std::string& config) {
    const auto path = write(gpt2(), {});
    folder_.write("config.json", config);
    return error_of([&] { Gpt2Checkpoint checkpoint(path); });
  }

  TempFolder folder_;
};

TEST(Gpt2Tensors, AreAllParametersInTheModelsOrder) {
  std::vector<std::string> names;
  Index elements = 0;
  for (const NamedShape& tensor : gpt2_tensors({.layers = 1, .hidden = 4, .positions = 5, .vocabulary = 7})) {
    names.push_back(tensor.name + " " + shape_text(tensor.shape));
  }
  EXPECT_THAT(names, testing::ElementsAre("wte.weight (7, 4)", "wpe.weight (5, 4)", "h.0.ln_1.weight (4)",
                                          "h.0.ln_1.bias (4)", "h.0.attn.c_attn.weight (4, 12)",
                                          "h.0.attn.c_attn.bias (12)", "h.0.attn.c_proj.weight (4, 4)",
                                          "h.0.attn.c_proj.bias (4)", "h.0.ln_2.weight (4)",
                                          "h.0.ln_2.bias (4)", "h.0.mlp.c_fc.weight (4, 16)",
                                          "h.0.mlp.c_fc.bias (16)", "h.0.mlp.c_proj.weight (16, 4)",
                                          "h.0.mlp.c_proj.bias (4)", "ln_f.weight (4)", "ln_f.bias (4)"));
  for (const NamedShape& tensor : gpt2_tensors({})) {
    Index size = 1;
    for (const Index extent : tensor.shape) size *= extent;
    elements += size;
  }
  EXPECT_EQ(elements, GptShape{}.parameters());
  EXPECT_EQ(elements, 124'439'808);
}

TEST_F(Gpt2, ShapeComesFromTheTensors) {
  for (const char* prefix : {"", "transformer."}) {
    const Gpt2Checkpoint checkpoint(write(gpt2(prefix)));
    EXPECT_EQ(checkpoint.shape(), shape);
    for (const NamedShape& tensor : gpt2_tensors(shape)) {
      EXPECT_EQ(checkpoint.tensor(tensor.name).name, prefix + tensor.name);
      EXPECT_EQ(checkpoint.tensor(tensor.name).shape, tensor.shape);
    }
  }
}

TEST_F(Gpt2, AWrittenCheckpointLoads) {
  const auto path = folder_ / "model.safetensors";
  SafetensorsWriter writer(path, gpt2_tensors(shape), gpt2_metadata(shape));
  float number = 0;
  for (const NamedShape& tensor : gpt2_tensors(shape)) {
    const Vector<float> memory = writer.tensor(tensor.name);
    for (Index i = 0; i < memory.size(); ++i) memory(i) = number++;
  }
  writer.commit();

  const Gpt2Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.shape(), shape);
  number = 0;
  for (const NamedShape& tensor : gpt2_tensors(shape)) {
    for (Index i = 0; i < checkpoint.tensor(tensor.name).size; ++i) {
      float value = -1;
      checkpoint.tensor(tensor.name).read(i, 1, &value);
      ASSERT_EQ(value, number++) << tensor.name;
    }
  }
  EXPECT_THAT(folder_.names(), testing::ElementsAre("model.safetensors"));
}

TEST_F(Gpt2, MasksAreIgnoredWhateverTheirTypeAndShape) {
  for (const std::string prefix : {"", "transformer."}) {
    Tensors tensors = gpt2(prefix);
    tensors[prefix + "h.0.attn.bias"] = floats({1, 1, 5, 5});
    tensors[prefix + "h.1.attn.bias"] = {{1, 1, 5, 5}, "BOOL", std::string(25, '\1')};
    tensors[prefix + "h.1.attn.masked_bias"] = floats({});
    EXPECT_EQ(refusal(tensors), "");
  }
}

TEST_F(Gpt2, ACopyOfTheEmbeddingAsOutputHeadIsTheTiedHead) {
  Tensors tensors = gpt2("transformer.");
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  EXPECT_EQ(refusal(tensors), "");

  tensors["lm_head.weight"].bytes.back() ^= 1;
  EXPECT_THAT(refusal(tensors),
              HasSubstr("model.safetensors is not a GPT-2 that can be loaded: its output head lm_head.weight "
                        "differs from wte.weight, to which GPT-2 ties it"));
  tensors["lm_head.weight"] = {{7, 6}, "F16", std::string(84, '\0')};
  EXPECT_THAT(refusal(tensors), HasSubstr("lm_head.weight differs from wte.weight"));
  tensors["lm_head.weight"] = floats({6, 7});
  EXPECT_THAT(refusal(tensors), HasSubstr("lm_head.weight differs from wte.weight"));
}

TEST_F(Gpt2, AnotherModelIsRefusedByName) {
  Tensors llama;
  llama["model.embed_tokens.weight"] = floats({7, 6});
  llama["model.layers.0.self_attn.q_proj.weight"] = floats({6, 6});
  EXPECT_THAT(
      refusal(llama),
      HasSubstr("is not a GPT-2 that can be loaded: it has no tensor wte.weight (it has 2 tensors, the "
                "first of them model.embed_tokens.weight); give a GPT-2"));
  EXPECT_THAT(refusal({}), HasSubstr("it has no tensor wte.weight (it has 0 tensors)"));
}

TEST_F(Gpt2, EveryTensorIsNeeded) {
  for (const NamedShape& tensor : gpt2_tensors(shape)) {
    Tensors tensors = gpt2();
    tensors.erase(tensor.name);
    EXPECT_THAT(refusal(tensors), testing::AnyOf(HasSubstr("tensor " + tensor.name + " is missing"),
                                                 HasSubstr("it has no tensor " + tensor.name)));
  }
  Tensors tensors = gpt2();
  tensors.erase("h.0.ln_1.bias");
  tensors.erase("h.1.mlp.c_fc.bias");
  tensors.erase("ln_f.weight");
  EXPECT_THAT(refusal(tensors), HasSubstr("tensor h.0.ln_1.bias is missing, and 2 more"));
}

TEST_F(Gpt2, EveryShapeIsChecked) {
  for (const NamedShape& tensor : gpt2_tensors(shape)) {
    if (tensor.name == "wte.weight" || tensor.name == "wpe.weight") continue;  // these say the shape
    Tensors tensors = gpt2();
    std::vector<Index> wrong = tensor.shape;
    ++wrong.back();
    tensors[tensor.name] = floats(wrong);
    EXPECT_THAT(refusal(tensors),
                HasSubstr("tensor " + tensor.name + " has shape " + shape_text(wrong) +
                          ", where a GPT-2 of hidden size 6 has " + shape_text(tensor.shape)));
  }
}

TEST_F(Gpt2, LinearLayersAsOutInAreRefused) {
  Tensors tensors = gpt2("transformer.");
  tensors["transformer.h.1.mlp.c_fc.weight"] = floats({24, 6});
  EXPECT_THAT(
      refusal(tensors),
      HasSubstr("tensor transformer.h.1.mlp.c_fc.weight has shape (24, 6), where a GPT-2 of hidden size "
                "6 has (6, 24), weights as (in, out)"));
}

TEST_F(Gpt2, EmbeddingsMustHaveAShape) {
  for (const std::vector<Index>& wrong :
       std::vector<std::vector<Index>>{{}, {7}, {7, 0}, {0, 6}, {7, 3, 2}}) {
    Tensors tensors = gpt2();
    tensors["wte.weight"] = floats(wrong);
    EXPECT_THAT(refusal(tensors), HasSubstr("wte.weight has shape " + shape_text(wrong) + ", which is not"));
  }
  Tensors tensors = gpt2();
  tensors["wpe.weight"] = floats({5, 7});
  EXPECT_THAT(refusal(tensors), HasSubstr("tensor wpe.weight has shape (5, 7), where"));
  tensors = {{"wte.weight", {{Index{1} << 40, 0}, "F32", ""}}, {"wpe.weight", floats({5, 6})}};
  EXPECT_THAT(refusal(tensors), HasSubstr("which is not (entries, hidden)"));
}

TEST_F(Gpt2, UnknownTensorsAreRefusedByName) {
  for (const char* name : {"score.weight", "h.0.crossattention.c_attn.weight", "h.01.ln_1.weight",
                           "h.x.ln_1.bias", "attn.bias", "h.0.mlp.gate.weight"}) {
    Tensors tensors = gpt2();
    tensors[name] = floats({6});
    EXPECT_THAT(refusal(tensors), HasSubstr(std::string("it also has a tensor ") + name +
                                            ", which a GPT-2 of 2 layers has no use for"));
  }
}

TEST_F(Gpt2, LayersAreCountedByTheirNumbers) {
  Tensors tensors = gpt2();
  tensors["h.2.ln_1.weight"] = floats({6});
  EXPECT_THAT(refusal(tensors), HasSubstr("tensor h.2.ln_1.bias is missing, and 10 more"));
  for (const char* number : {"2147483647", "1000000"}) {
    tensors = gpt2();
    tensors[std::string("h.") + number + ".ln_1.weight"] = floats({6});
    EXPECT_THAT(refusal(tensors), HasSubstr(std::string("it has a tensor h.") + number +
                                            ".ln_1.weight, but only 29 tensors in all"));
  }
  for (auto place = tensors.begin(); place != tensors.end();) {
    place = place->first.starts_with("h.") ? tensors.erase(place) : std::next(place);
  }
  EXPECT_THAT(refusal(tensors), HasSubstr("it has no layers"));
}

TEST_F(Gpt2, NamesWithAndWithoutPrefixMustNotClash) {
  Tensors tensors = gpt2();
  tensors["transformer.ln_f.bias"] = tensors["ln_f.bias"];
  EXPECT_THAT(refusal(tensors),
              HasSubstr("it has the tensor ln_f.bias with and without the prefix transformer."));
}

TEST_F(Gpt2, WeightsMustBeFloats) {
  Tensors tensors = gpt2();
  tensors["h.0.mlp.c_fc.weight"] = {{6, 24}, "I8", std::string(144, '\0')};
  EXPECT_THAT(refusal(tensors),
              HasSubstr("tensor h.0.mlp.c_fc.weight is of type I8, not F32, F16, BF16 or F64"));
  tensors["h.0.mlp.c_fc.weight"] = {{6, 24}, "BF16", std::string(288, '\0')};
  EXPECT_EQ(refusal(tensors), "");
}

TEST_F(Gpt2, ADamagedFileIsRefused) {
  const std::string whole = test::safetensors_of(gpt2(), three_heads);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    const auto path = folder_.write("model.safetensors", whole.substr(0, size));
    EXPECT_THAT(error_of([&] { Gpt2Checkpoint checkpoint(path); }),
                HasSubstr("is not a sound safetensors file"));
  }
}

TEST_F(Gpt2, HeadsComeFromTheCallerTheMetadataOrTheConfig) {
  EXPECT_EQ(Gpt2Checkpoint(write(gpt2(), {}), 2).shape().heads, 2);
  EXPECT_EQ(Gpt2Checkpoint(write(gpt2(), {{"n_head", "6"}})).shape().heads, 6);
  folder_.write("config.json", R"({"n_head": 1})");
  EXPECT_EQ(Gpt2Checkpoint(write(gpt2(), {})).shape().heads, 1);
  EXPECT_EQ(Gpt2Checkpoint(write(gpt2(), {{"n_head", "1"}}), 1).shape().heads, 1);
}

TEST_F(Gpt2, HeadsMustBeKnown) {
  const auto path = write(gpt2(), {{"format", "pt"}});
  EXPECT_EQ(error_of([&] { Gpt2Checkpoint checkpoint(path); }),
            path.string() +
                " does not say how many attention heads the model has; put the model's config.json "
                "beside it, or give the number of heads");
}

TEST_F(Gpt2, HeadsMustAgree) {
  auto path = write(gpt2());
  EXPECT_THAT(error_of([&] { Gpt2Checkpoint checkpoint(path, 2); }),
              HasSubstr("has 2 heads by the number asked for, but 3 by its metadata"));
  const auto config = folder_.write("config.json", R"({"n_head": 6})");
  EXPECT_THAT(error_of([&] { Gpt2Checkpoint checkpoint(path, 3); }),
              HasSubstr("has 3 heads by its metadata, but 6 by " + config.string()));
  path = write(gpt2(), {});
  EXPECT_THAT(error_of([&] { Gpt2Checkpoint checkpoint(path, 3); }),
              HasSubstr("has 3 heads by the number asked for, but 6 by " + config.string()));
}

TEST_F(Gpt2, HeadsAreANumberThatDividesTheHiddenSize) {
  for (const int heads : {4, 0, -1, 7}) {
    const auto path = write(gpt2(), {});
    EXPECT_THAT(
        error_of([&] { Gpt2Checkpoint checkpoint(path, heads); }),
        HasSubstr("has hidden size 6, which cannot be split over " + std::to_string(heads) + " heads"));
  }
  for (const char* heads : {"", "three", "3.0", "3 ", "99999999999"}) {
    const auto path = write(gpt2(), {{"n_head", heads}});
    EXPECT_THAT(error_of([&] { Gpt2Checkpoint checkpoint(path); }),
                HasSubstr(path.string() + " cannot be loaded: n_head in its metadata is not a whole number"))
        << heads;
  }
  for (const char* heads : {"\"3\"", "3.5", "null", "[3]", "1e99", "18446744073709551615", "-3"}) {
    EXPECT_THAT(refusal_of_config("{\"n_head\": " + std::string(heads) + "}"),
                HasSubstr("config.json is not a whole number"))
        << heads;
  }
}

TEST_F(Gpt2, ConfigMustAgreeWithTheTensors) {
  EXPECT_EQ(
      refusal_of_config(
          R"({"model_type": "gpt2", "n_head": 3, "n_embd": 6, "n_layer": 2, "n_positions": 5, "n_ctx": 5,
                    "vocab_size": 7, "n_inner": null, "activation_function": "gelu_new", "attn_pdrop": 0.1,
                    "layer_norm_epsilon": 1e-05, "scale_attn_weights": true, "tie_word_embeddings": true,
                    "scale_attn_by_inverse_layer_idx": false, "add_cross_attention": false})"),
      "");
  EXPECT_EQ(refusal_of_config(R"({"n_head": 3, "n_inner": 24, "activation_function": "gelu_pytorch_tanh"})"),
            "");

  const std::vector<std::pair<std::string, std::string>> wrong{
      {"model_type", "\"gpt_neo\""},
      {"vocab_size", "8"},
      {"n_positions", "1024"},
      {"n_embd", "12"},
      {"n_layer", "1"},
      {"n_inner", "6"},
      {"activation_function", "\"gelu\""},
      {"layer_norm_epsilon", "1e-06"},
      {"scale_attn_weights", "false"},
      {"scale_attn_by_inverse_layer_idx", "true"},
      {"tie_word_embeddings", "false"},
      {"add_cross_attention", "true"},
  };
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(refusal_of_config("{\"n_head\": 3, \"" + key + "\": " + value + "}"),
                AllOf(HasSubstr("config.json says " + key + " = " + value),
                      HasSubstr("but model.safetensors can only be loaded with ")));
  }
}

TEST_F(Gpt2, ADamagedConfigIsRefused) {
  for (const char* config : {"", "{", "[]", "3", "{\"n_head\": \xFF}", "{\"n_head\": 1e999}"}) {
    EXPECT_THAT(refusal_of_config(config), HasSubstr("config.json is not a JSON object")) << config;
  }
  for (const std::string depth : {"[", R"({"n_layer":)"}) {
    std::string deep = R"({"n_layer":)";
    for (int i = 0; i < 200'000; ++i) deep += depth;
    deep += "1";
    for (int i = 0; i < 200'000; ++i) deep += depth == "[" ? "]" : "}";
    EXPECT_THAT(refusal_of_config(deep + "}"), HasSubstr("says n_layer = a list or an object"));
  }
  std::filesystem::remove(folder_ / "config.json");
  std::filesystem::create_directory(folder_ / "config.json");
  const auto path = write(gpt2());
  EXPECT_THAT(error_of([&] { Gpt2Checkpoint checkpoint(path); }), HasSubstr("config.json is a folder"));
}

TEST_F(Gpt2, AConfigOfSomethingElseSaysNothing) {
  folder_.write("config.json", R"({"compilerOptions": {"strict": true}})");
  EXPECT_EQ(refusal(gpt2()), "");
}

TEST_F(Gpt2, OnlyItsOwnNamesAreGivenOut) {
  const Gpt2Checkpoint checkpoint(write(gpt2("transformer.")));
  EXPECT_THAT(error_of([&] { checkpoint.tensor("transformer.wte.weight"); }),
              HasSubstr("model.safetensors has no tensor transformer.wte.weight"));
}

}  // namespace
}  // namespace trilith
