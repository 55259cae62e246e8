// Token shards in llm.c's format: which load, how they are divided, and what is said of damaged ones.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/train/load_corpus.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using test::TempFolder;
using testing::HasSubstr;

std::vector<Token> counting(int first, int count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<Token>(first));
  return tokens;
}

std::string shard(const std::vector<Token>& tokens, std::int32_t magic = 20240520, std::int32_t version = 1) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  return test::bytes_of(header) + test::bytes_of(tokens);
}

std::string refusal(const std::string& content) {
  const TempFolder folder;
  const auto path = folder.write("tokens.bin", content);
  return error_of([&] { load_corpus(path); });
}

TEST(TokenShards, OneFileGivesItsLastTenthForValidation) {
  const TempFolder folder;
  for (const char* name : {"tokens.bin", "a_val_0.bin", "no-suffix"}) {
    const Corpus corpus = load_corpus(folder.write(name, shard(counting(40000, 105))));
    EXPECT_EQ(corpus.training, counting(40000, 95));
    EXPECT_EQ(corpus.validation, counting(40095, 10));
    EXPECT_EQ(corpus.vocabulary, 50257);
    EXPECT_EQ(corpus.source, (folder / name).string());
  }
}

TEST(TokenShards, AFolderGivesItsShardsInOrder) {
  const TempFolder folder;
  folder.write("tiny_train_000002.bin", shard(counting(60, 40)));
  folder.write("tiny_train_000001.bin", shard(counting(0, 60)));
  folder.write("README.md", "what is no shard does not count");
  const Corpus corpus = load_corpus(folder.path());
  EXPECT_EQ(corpus.training, counting(0, 90));
  EXPECT_EQ(corpus.validation, counting(90, 10));
}

TEST(TokenShards, FilesNamedValAreForValidation) {
  const TempFolder folder;
  folder.write("tiny_val_000000.bin", shard(counting(60, 40)));
  folder.write("tiny_train_000001.bin", shard(counting(0, 60)));
  std::filesystem::create_symlink("tiny_val_000000.bin", folder / "zz.bin");  // the same file once more
  Corpus corpus = load_corpus(folder.path());
  EXPECT_EQ(corpus.training, counting(0, 60));
  EXPECT_EQ(corpus.validation, counting(60, 40));

  std::filesystem::remove(folder / "tiny_train_000001.bin");
  corpus = load_corpus(folder.path());  // nothing else to train on
  EXPECT_EQ(corpus.training, counting(60, 36));
  EXPECT_EQ(corpus.validation, counting(96, 4));
}

TEST(TokenShards, DamagedOnesAreRefused) {
  EXPECT_THAT(refusal(""),
              HasSubstr("tokens.bin is not a sound token shard: it has 0 bytes, fewer than the 1024 "
                        "of the header; give shards as llm.c writes them"));
  EXPECT_THAT(refusal(std::string(1023, '\0')), HasSubstr("it has 1023 bytes"));
  EXPECT_THAT(refusal(std::string(2000, ' ')),
              HasSubstr("it begins with the number 538976288, not 20240520"));
  EXPECT_THAT(refusal(shard(counting(0, 9), 20240801)), HasSubstr("it begins with the number 20240801"));
  EXPECT_THAT(refusal(shard(counting(0, 9), 20240520, 2)), HasSubstr("it is of version 2, not 1"));
  EXPECT_THAT(refusal(shard({})), HasSubstr("its header counts 0 tokens"));
  std::string negative = shard(counting(0, 9));
  negative[11] = '\xFF';
  EXPECT_THAT(refusal(negative), HasSubstr("its header counts -16777207 tokens"));
}

TEST(TokenShards, EveryWrongLengthIsRefused) {
  const std::string whole = shard(counting(0, 40));
  EXPECT_EQ(refusal(whole), "");
  for (std::size_t size = 1024; size < whole.size(); ++size) {
    EXPECT_THAT(refusal(whole.substr(0, size)),
                HasSubstr("its header counts 40 tokens, which makes 1104 bytes, but it has " +
                          std::to_string(size) + " (truncated)"));
  }
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("which makes 1104 bytes, but it has 1105;"));
}

TEST(TokenShards, OneDamagedFileOfAFolderIsNamed) {
  const TempFolder folder;
  folder.write("a.bin", shard(counting(0, 60)));
  folder.write("b.bin", shard(counting(0, 60)).substr(0, 1100));
  EXPECT_THAT(error_of([&] { load_corpus(folder.path()); }), HasSubstr("b.bin is not a sound token shard"));
}

}  // namespace
}  // namespace trilith
