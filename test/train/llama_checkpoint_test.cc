// Checkpoints of Llamas: which files load, with which shape, and what is said of those that do not.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <trilith/nn/llama_tensors.hpp>
#include <trilith/train/llama_checkpoint.hpp>
#include <trilith/train/safetensors_writer.hpp>

#include "test/support/checkpoints.hpp"
#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using test::FileTensors;
using test::floats;
using test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;

constexpr LlamaShape shape{.layers = 2,
                           .hidden = 6,
                           .heads = 6,
                           .kv_heads = 3,
                           .head_dimension = 2,
                           .feed_forward = 10,
                           .positions = 5,
                           .vocabulary = 7,
                           .rope_theta = 123456.78f,
                           .norm_epsilon = 1e-6f};

LlamaShape tied() {
  LlamaShape shape = trilith::shape;
  shape.tied = true;
  return shape;
}

FileTensors llama(const LlamaShape& shape) {
  FileTensors tensors;
  for (const NamedShape& tensor : llama_tensors(shape)) {
    tensors[tensor.name] = floats(tensor.shape, static_cast<float>(tensors.size()) * 1000);
  }
  return tensors;
}

// As transformers wrote it before version 5.
nlohmann::json config() {
  return {{"model_type", "llama"},    {"num_attention_heads", 6},
          {"num_key_value_heads", 3}, {"head_dim", nullptr},
          {"hidden_size", 6},         {"intermediate_size", 10},
          {"num_hidden_layers", 2},   {"max_position_embeddings", 5},
          {"vocab_size", 7},          {"rope_theta", 123456.78},
          {"rope_scaling", nullptr},  {"rms_norm_eps", 1e-6},
          {"hidden_act", "silu"},     {"attention_bias", false},
          {"mlp_bias", false},        {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"}};
}

class LlamaFile : public testing::Test {
 protected:
  std::filesystem::path write(const FileTensors& tensors, const nlohmann::json& config) {
    folder_.write("config.json", config.dump());
    return folder_.write("model.safetensors", test::safetensors_of(tensors));
  }

  std::string refusal(const FileTensors& tensors) {
    const auto path = write(tensors, config());
    return error_of([&] { LlamaCheckpoint checkpoint(path); });
  }

  std::string refusal_of_config(const nlohmann::json& config) {
    const auto path = write(llama(shape), config);
    return error_of([&] { LlamaCheckpoint checkpoint(path); });
  }

  // With another value for a key.
  std::string refusal_of(const char* key, const nlohmann::json& value) {
    nlohmann::json changed = config();
    changed[key] = value;
    return refusal_of_config(changed);
  }

  TempFolder folder_;
};

TEST(LlamaTensors, AreAllParametersInHuggingFacesOrder) {
  std::vector<std::string> names;
  LlamaShape one = shape;
  one.layers = 1;
  for (const NamedShape& tensor : llama_tensors(one)) {
    names.push_back(tensor.name + " " + shape_text(tensor.shape));
  }
  EXPECT_THAT(
      names,
      testing::ElementsAre(
          "model.embed_tokens.weight (7, 6)", "model.layers.0.self_attn.q_proj.weight (12, 6)",
          "model.layers.0.self_attn.k_proj.weight (6, 6)", "model.layers.0.self_attn.v_proj.weight (6, 6)",
          "model.layers.0.self_attn.o_proj.weight (6, 12)", "model.layers.0.mlp.gate_proj.weight (10, 6)",
          "model.layers.0.mlp.up_proj.weight (10, 6)", "model.layers.0.mlp.down_proj.weight (6, 10)",
          "model.layers.0.input_layernorm.weight (6)", "model.layers.0.post_attention_layernorm.weight (6)",
          "model.norm.weight (6)", "lm_head.weight (7, 6)"));
}

TEST_F(LlamaFile, ShapeComesFromTensorsAndConfig) {
  const LlamaCheckpoint checkpoint(write(llama(shape), config()));
  EXPECT_EQ(checkpoint.shape(), shape);
  for (const NamedShape& tensor : llama_tensors(shape)) {
    EXPECT_EQ(checkpoint.tensor(tensor.name).shape, tensor.shape);
  }
}

// Every number comes back to the bit without a config.json.
TEST_F(LlamaFile, AWrittenCheckpointLoads) {
  for (const LlamaShape& written : {shape, tied()}) {
    const auto path = folder_ / "model.safetensors";
    SafetensorsWriter writer(path, llama_tensors(written), llama_metadata(written));
    for (const NamedShape& tensor : llama_tensors(written)) writer.tensor(tensor.name);
    writer.commit();
    EXPECT_EQ(LlamaCheckpoint(path).shape(), written);
  }
}

TEST_F(LlamaFile, WithoutAHeadIsTied) {
  nlohmann::json config = trilith::config();
  config["tie_word_embeddings"] = true;
  EXPECT_EQ(LlamaCheckpoint(write(llama(tied()), config)).shape(), tied());
  const auto path = write(llama(tied()), trilith::config());
  EXPECT_THAT(
      error_of([&] { LlamaCheckpoint checkpoint(path); }),
      HasSubstr("says tie_word_embeddings = false, but model.safetensors can only be loaded with true"));
}

TEST_F(LlamaFile, ACopyOfTheEmbeddingAsTiedHeadSaysNothingNew) {
  nlohmann::json config = trilith::config();
  config["tie_word_embeddings"] = true;
  FileTensors tensors = llama(shape);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  EXPECT_EQ(LlamaCheckpoint(write(tensors, config)).shape(), tied());
  EXPECT_EQ(LlamaCheckpoint(write(tensors, trilith::config())).shape(), shape);

  const auto path = write(llama(shape), config);
  EXPECT_THAT(error_of([&] { LlamaCheckpoint checkpoint(path); }),
              HasSubstr("its output head lm_head.weight differs from model.embed_tokens.weight, to which " +
                        (folder_ / "config.json").string() + " ties it"));
}

TEST_F(LlamaFile, AnotherModelIsRefusedByName) {
  FileTensors gpt2;
  gpt2["wte.weight"] = floats({7, 6});
  EXPECT_THAT(refusal(gpt2), HasSubstr("is not a Llama that can be loaded: it has no tensor "
                                       "model.embed_tokens.weight (it has 1 tensors, the first of them "
                                       "wte.weight); give a Llama with the tensors of Hugging Face's "
                                       "LlamaForCausalLM"));
  EXPECT_THAT(refusal_of("model_type", "mistral"), HasSubstr("says model_type = \"mistral\""));
}

TEST_F(LlamaFile, EveryTensorIsNeeded) {
  for (const NamedShape& tensor : llama_tensors(tied())) {
    FileTensors tensors = llama(shape);
    tensors.erase(tensor.name);
    EXPECT_THAT(refusal(tensors), testing::AnyOf(HasSubstr("tensor " + tensor.name + " is missing"),
                                                 HasSubstr("it has no tensor " + tensor.name)));
  }
}

TEST_F(LlamaFile, EveryShapeIsChecked) {
  for (const NamedShape& tensor : llama_tensors(shape)) {
    if (tensor.name == "model.embed_tokens.weight") continue;  // says the shape
    FileTensors tensors = llama(shape);
    std::vector<Index> wrong = tensor.shape;
    ++wrong.back();
    tensors[tensor.name] = floats(wrong);
    EXPECT_THAT(refusal(tensors), HasSubstr("tensor " + tensor.name + " has shape " + shape_text(wrong) +
                                            ", where a Llama of hidden size 6 has " +
                                            shape_text(tensor.shape) + ", weights as (out, in)"));
  }
}

// Files of Llama 2 have them; transformers, too, passes over them.
TEST_F(LlamaFile, FrequenciesOfTheRotaryEmbeddingSayNothingNew) {
  FileTensors tensors = llama(shape);
  for (const char* layer : {"0", "1"}) {
    tensors[std::string("model.layers.") + layer + ".self_attn.rotary_emb.inv_freq"] = floats({1});
  }
  EXPECT_EQ(LlamaCheckpoint(write(tensors, config())).shape(), shape);
}

TEST_F(LlamaFile, UnknownTensorsAreRefusedByName) {
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.self_attn.q_norm.weight", "score.weight"}) {
    FileTensors tensors = llama(shape);
    tensors[name] = floats({6});
    EXPECT_THAT(refusal(tensors), HasSubstr(std::string("it also has a tensor ") + name +
                                            ", which a Llama of 2 layers has no use for"));
  }
}

TEST_F(LlamaFile, HeadsMustShareQueriesAndKeys) {
  EXPECT_THAT(refusal_of("num_attention_heads", 5),
              HasSubstr("it has 12 queries and 6 keys, which 5 heads cannot share"));
  EXPECT_THAT(refusal_of("num_attention_heads", 3), HasSubstr("which 3 heads cannot share"));
  EXPECT_THAT(refusal_of("num_attention_heads", 0), HasSubstr("which 0 heads cannot share"));
  EXPECT_THAT(refusal_of("num_attention_heads", "6"), HasSubstr("is not a whole number"));
}

TEST_F(LlamaFile, WhatTheTensorsDoNotSayMustBeSaid) {
  for (const char* key : {"num_attention_heads", "max_position_embeddings", "rms_norm_eps"}) {
    nlohmann::json config = trilith::config();
    config.erase(key);
    EXPECT_THAT(refusal_of_config(config), HasSubstr(std::string("does not say ") + key));
  }
  EXPECT_THAT(refusal_of_config(nlohmann::json::object()), HasSubstr("does not say num_attention_heads"));
}

TEST_F(LlamaFile, ConfigMustAgreeWithTheTensorsAndBeOfThisKind) {
  const std::vector<std::pair<const char*, nlohmann::json>> wrong{
      {"vocab_size", 8},          {"hidden_size", 12},      {"num_hidden_layers", 1},
      {"num_key_value_heads", 6}, {"head_dim", 3},          {"intermediate_size", 11},
      {"hidden_act", "gelu"},     {"attention_bias", true}, {"mlp_bias", true},
  };
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(refusal_of(key, value),
                AllOf(HasSubstr(std::string("config.json says ") + key + " = " + value.dump()),
                      HasSubstr("but model.safetensors can only be loaded with ")));
  }
}

TEST_F(LlamaFile, ScaledRotaryEmbeddingsAreRefused) {
  EXPECT_THAT(refusal_of("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
              HasSubstr("says rope_scaling = a list or an object, but model.safetensors can only be loaded "
                        "with null"));
  const auto parameters = [&](const nlohmann::json& parameters) {
    nlohmann::json config = trilith::config();
    config.erase("rope_theta");
    config["rope_parameters"] = parameters;
    return refusal_of_config(config);
  };
  EXPECT_EQ(parameters({{"rope_theta", 123456.78}, {"rope_type", "default"}}), "");
  EXPECT_THAT(parameters({{"rope_theta", 500000.0}, {"rope_type", "llama3"}}),
              AllOf(HasSubstr("says more of rope_parameters than rope_theta: rope_type"),
                    HasSubstr("give a model whose rotary embedding is not scaled")));
  EXPECT_THAT(parameters({{"rope_theta", 500000.0}, {"factor", 8.0}}), HasSubstr("factor"));
  EXPECT_THAT(parameters({{"rope_type", "default"}}), HasSubstr("is not a number"));
  EXPECT_THAT(parameters(3), HasSubstr("is not a number"));
  EXPECT_THAT(refusal_of("rope_parameters", {{"rope_theta", 10000.0}}),
              HasSubstr("for the base of its rotary embedding by"));
}

// Before there was a choice, every Llama had the same base, and no config.json said so.
TEST_F(LlamaFile, AnOldConfigMeansABaseOf10000) {
  nlohmann::json config = trilith::config();
  config.erase("rope_theta");
  EXPECT_EQ(LlamaCheckpoint(write(llama(shape), config)).shape().rope_theta, 10000);
}

TEST_F(LlamaFile, AShapeThatCannotBeComputedIsRefused) {
  EXPECT_THAT(refusal_of("rms_norm_eps", -1),
              HasSubstr("is not a Llama that can be loaded: the base of a rotary embedding and the epsilon"));
  EXPECT_THAT(refusal_of("rope_theta", 1e39), HasSubstr("must be positive and finite"));  // no float
  nlohmann::json config = trilith::config();
  config["num_attention_heads"] = 12;
  config.erase("num_key_value_heads");
  EXPECT_THAT(refusal_of_config(config),
              HasSubstr("the dimension of a head must be even (head_dimension=1)"));
}

}  // namespace
}  // namespace trilith
