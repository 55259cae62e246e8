// Text as a corpus: what is held out, and that no text stands in both parts.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/train/load_corpus.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::error_of;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(const std::vector<Token>& tokens) {
  return {tokens.begin(), tokens.end()};
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> paragraphs_of(std::string_view text) {
  std::vector<std::string> paragraphs;
  for_each_paragraph(text, [&](std::string_view paragraph) { paragraphs.emplace_back(paragraph); });
  return paragraphs;
}

// Random words, so that nothing repeats unless it is meant to.
std::string prose(std::uint64_t seed, int words, int words_per_line = 9) {
  const Philox random(seed, 1);
  std::string text;
  for (int i = 0; i < words; ++i) {
    const auto bits = random.block(static_cast<std::uint64_t>(i));
    for (std::uint32_t letter = 0; letter < 3 + bits[0] % 6; ++letter) {
      text += static_cast<char>('a' + (bits[1 + letter % 3] >> letter) % 26);
    }
    text += i % words_per_line == words_per_line - 1 || i == words - 1 ? '\n' : ' ';
  }
  return text;
}

std::string article(std::uint64_t seed, int paragraphs) {
  std::string text;
  for (int p = 0; p < paragraphs; ++p) {
    text += prose(seed * 1000 + static_cast<std::uint64_t>(p), 30) + "\n";
  }
  return text;
}

// The law: no 13 words in a row, and no paragraph, of the validation text stand in the training text.
void expect_disjoint(const Corpus& corpus) {
  const auto runs_of = [](std::string_view text) {
    std::set<std::vector<std::string>> runs;
    for (const std::string& paragraph : paragraphs_of(text)) {
      const std::vector<std::string> words = words_of(paragraph);
      if (!words.empty()) runs.insert(words);
    }
    const std::vector<std::string> words = words_of(text);
    for (std::size_t i = 0; i + 13 <= words.size(); ++i) {
      runs.emplace(words.begin() + static_cast<std::ptrdiff_t>(i),
                   words.begin() + static_cast<std::ptrdiff_t>(i + 13));
    }
    return runs;
  };
  const auto training = runs_of(text_of(corpus.training));
  for (const std::string& paragraph : paragraphs_of(text_of(corpus.validation))) {
    for (const std::vector<std::string>& run : runs_of(paragraph)) {
      EXPECT_FALSE(training.contains(run)) << testing::PrintToString(run);
    }
  }
}

TEST(Paragraphs, EndWithTheirBlankLines) {
  EXPECT_THAT(paragraphs_of(""), ElementsAre());
  EXPECT_THAT(paragraphs_of("a"), ElementsAre("a"));
  EXPECT_THAT(paragraphs_of("\n\n"), ElementsAre("\n\n"));
  EXPECT_THAT(paragraphs_of("a\nb\n\nc"), ElementsAre("a\nb\n\n", "c"));
  EXPECT_THAT(paragraphs_of("\n a\n \t\r\n\nb\r\n\r\n"), ElementsAre("\n a\n \t\r\n\n", "b\r\n\r\n"));
}

TEST(Paragraphs, AndLinesMakeUpTheWholeText) {
  const Philox random(5, 0);
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    std::string text;
    for (std::uint64_t i = 0; i < trial % 23; ++i) text += "ab \n\n\n\r"[random.block(trial * 32 + i)[0] % 7];
    std::string paragraphs;
    std::string lines;
    for_each_paragraph(text, [&](std::string_view part) { paragraphs += part; });
    for_each_line(text, [&](std::string_view part) { lines += part; });
    EXPECT_EQ(paragraphs, text);
    EXPECT_EQ(lines, text);
  }
}

TEST(Words, CountWhateverTheSpaceBetweenThem) {
  EXPECT_EQ(words_hash("one two  three"), words_hash("\n one\r\n\ttwo\vthree\f"));
  EXPECT_NE(words_hash("one two"), words_hash("onetwo"));
  EXPECT_NE(words_hash("one two"), words_hash("two one"));
  EXPECT_EQ(words_hash(""), words_hash(" \n"));
}

TEST(Words, RunsAreAll13InARow) {
  for (const std::string text :
       {"", "a", " b \n", "1 2 3 4 5 6 7 8 9 10 11 12", "1 2 3 4 5 6 7 8 9 10 11 12 13",
        "\n1  2 3\n4 5 6\t7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 "}) {
    std::vector<std::vector<std::string>> runs;
    for_each_run(text, [&](std::string_view run) { runs.push_back(words_of(run)); });
    const std::vector<std::string> words = words_of(text);
    ASSERT_EQ(runs.size(), words.size() < 13 ? 0 : words.size() - 12);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i);
      EXPECT_EQ(runs[i], std::vector<std::string>(begin, begin + 13));
    }
  }
}

TEST(HeldOut, BeginsWithAParagraphNearTheLastTenth) {
  const std::string text = article(1, 40);
  const std::size_t cut = held_out_begin(text);
  EXPECT_EQ(text.substr(cut - 2, 2), "\n\n");
  EXPECT_NE(text[cut], '\n');
  EXPECT_NEAR(static_cast<double>(cut) / static_cast<double>(text.size()), 0.9, 0.02);
}

TEST(HeldOut, BeginsWithALineWhereThereAreNoParagraphs) {
  const std::string text = prose(1, 900);
  const std::size_t cut = held_out_begin(text);
  EXPECT_EQ(text[cut - 1], '\n');
  EXPECT_NEAR(static_cast<double>(cut) / static_cast<double>(text.size()), 0.9, 0.02);
}

TEST(HeldOut, OfASingleLineIsItsLastTenth) {
  EXPECT_EQ(held_out_begin(std::string(1000, 'x')), 900u);
  EXPECT_EQ(held_out_begin(std::string(999, 'x') + "\n"), 900u);
  std::string umlauts;
  for (int i = 0; i < 333; ++i) umlauts += "ä";
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(umlauts[held_out_begin(umlauts) - static_cast<std::size_t>(i) % 2] & 0x80, 0x80);
    const auto first = static_cast<unsigned char>(umlauts[held_out_begin(umlauts)]);
    EXPECT_TRUE(first < 0x80 || first >= 0xC0) << "cut within a character";
    umlauts = "x" + umlauts;
  }
}

TEST(HeldOut, LiesWithinAnyText) {
  for (std::size_t size = 0; size < 60; ++size) {
    for (const char* filler : {"x", "\n", "\x80", "a\n", "a\n\n"}) {
      std::string text;
      while (text.size() < size) text += filler;
      const std::size_t cut = held_out_begin(text);
      EXPECT_LE(cut, text.size());
      EXPECT_GE(cut + 3, text.size() - text.size() / 4);
    }
  }
}

TEST(TextCorpus, IsTheBytesOfAFile) {
  const TempFolder folder;
  std::string content = article(1, 40);
  content[3] = '\0';
  content[4] = '\xFF';
  const Corpus corpus = load_corpus(folder.write("a.txt", content));
  EXPECT_EQ(text_of(corpus.training) + text_of(corpus.validation), content);
  EXPECT_EQ(corpus.training[4], 255);
  EXPECT_EQ(corpus.vocabulary, 256);
  EXPECT_EQ(corpus.source, (folder / "a.txt").string());
  expect_disjoint(corpus);
}

TEST(TextCorpus, HoldsOutTheEndOfEachFileInTheOrderOfTheirPaths) {
  const TempFolder folder;
  std::string training;
  std::string validation;
  // Written in another order than that of their paths, and some below others.
  const std::vector<std::string> names{"a", "b/c", "b/d/e", "f"};
  for (const std::size_t i : {2, 0, 3, 1}) folder.write(names[i], article(i + 1, 30));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string text = article(i + 1, 30);
    training += text.substr(0, held_out_begin(text));
    validation += text.substr(held_out_begin(text));
  }
  const Corpus corpus = load_corpus(folder.path());
  EXPECT_EQ(text_of(corpus.training), training);
  EXPECT_EQ(text_of(corpus.validation), validation);
}

TEST(TextCorpus, TakesEachFileOnce) {
  const TempFolder folder;
  folder.write("b", article(1, 30));
  const Corpus once = load_corpus(folder.path());
  folder.write("copy", article(1, 30));
  std::filesystem::create_symlink("b", folder / "a-link");
  std::filesystem::create_hard_link(folder / "b", folder / "c");
  std::filesystem::create_symlink("nothing", folder / "dangling");
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_directory_symlink(".", folder / "folder");
  folder.write(".hidden/file", "hidden");
  folder.write(".hidden-file", "hidden");
  folder.write("empty", "");
  const Corpus many = load_corpus(folder.path());
  EXPECT_EQ(many.training, once.training);
  EXPECT_EQ(many.validation, once.validation);
}

TEST(TextCorpus, DropsHeldOutParagraphsThatStandInAnyTraining) {
  const TempFolder folder;
  const std::string shared = prose(77, 40);
  const std::string short_one = "END OF TERMS\n";
  const std::string fresh = prose(78, 40);
  // Indented, and broken into other lines.
  std::string rewrapped = " ";
  for (const std::string& word : words_of(shared)) rewrapped += "  " + word + (word < "m" ? "\r\n" : "\t");
  folder.write("a", article(1, 30) + shared + "\n" + short_one + "\n" + article(2, 30));
  folder.write("b", article(3, 30) + rewrapped + "\n\n  END  OF\nTERMS\n\n" + fresh);
  const Corpus corpus = load_corpus(folder.path());
  EXPECT_THAT(text_of(corpus.training), HasSubstr(shared));
  EXPECT_THAT(text_of(corpus.validation), HasSubstr(fresh));
  EXPECT_THAT(text_of(corpus.validation), testing::Not(HasSubstr("TERMS")));
  expect_disjoint(corpus);
}

TEST(TextCorpus, DropsHeldOutParagraphsThatDifferInAWord) {
  const std::string shared = prose(77, 40);
  const std::string changed = "Otherwise " + shared.substr(shared.find(' '));
  const std::string fresh = prose(78, 12) + "\n";
  EXPECT_EQ(without_training_text({shared}, {"before\n\n" + changed + "\n" + fresh}), "before\n\n" + fresh);
}

TEST(TextCorpus, DropsTheRestOfAParagraphThatTheCutDivides) {
  // The second half of a paragraph that stands whole elsewhere, with or without paragraphs around it.
  const std::string paragraph = prose(5, 60);
  const std::string half = paragraph.substr(paragraph.find('\n', paragraph.size() / 2) + 1);
  const std::string fresh = prose(6, 40);
  EXPECT_EQ(without_training_text({prose(7, 40) + paragraph + prose(8, 40)}, {half + "\n" + fresh}), fresh);
}

TEST(TextCorpus, DropsSingleLinesOfTextWithoutBlankLines) {
  std::string lines;
  for (std::uint64_t i = 0; i < 100; ++i) lines += prose(i, 8, 8);
  ASSERT_GT(lines.size(), 2000u);
  const std::string seen = prose(50, 8, 8);
  std::string rest = lines;
  rest.erase(rest.find(seen), seen.size());
  EXPECT_EQ(without_training_text({"something\n" + seen + "else\n"}, {lines}), rest);
}

TEST(TextCorpus, DropsOnlyTheRepeatedWordsOfALongLine) {
  const std::string before = prose(1, 400, 1000);
  const std::string seen = prose(2, 20, 1000);
  const std::string after = prose(3, 400, 1000);
  std::string line = before + seen + after;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const std::string kept = without_training_text({prose(4, 30) + seen + prose(5, 30)}, {line});
  EXPECT_EQ(words_of(kept), words_of(before + " " + after));
}

TEST(TextCorpus, KeepsWhatRepeatsOnlyWithinTheHeldOutPart) {
  const std::string twice = prose(1, 40) + "\n" + prose(1, 40);
  EXPECT_EQ(without_training_text({prose(2, 40)}, {twice, twice}), twice + twice);
}

TEST(TextCorpus, OfOneRepeatedTextHasNothingToHoldOut) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the same again\n";
  const Corpus corpus = load_corpus(folder.write("a", text));
  EXPECT_TRUE(corpus.validation.empty());
  EXPECT_THAT(error_of([&] { check_length(corpus, 64); }),
              HasSubstr("a sequence of length 64 needs 65 tokens, but the validation part of " +
                        (folder / "a").string() + " has 0"));
}

TEST(TextCorpus, OfTheLicencesOfDebianKeepsEnoughToHoldOut) {
  if (!std::filesystem::exists(debian_license_texts)) GTEST_SKIP() << "not on Debian";
  const Corpus corpus = load_corpus(debian_license_texts);
  expect_disjoint(corpus);
  EXPECT_GT(corpus.training.size(), 100'000u);
  EXPECT_GT(corpus.validation.size(), corpus.training.size() / 20);
  EXPECT_EQ(load_corpus(debian_license_texts).training, corpus.training);
}

TEST(TextCorpus, SaysWhatCannotBeRead) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { load_corpus(folder / "absent"); }),
            (folder / "absent").string() + " does not exist; check the path");
  EXPECT_EQ(error_of([&] { load_corpus(folder.write("empty", "")); }),
            (folder / "empty").string() + " is empty; give a file or folder with text");
  EXPECT_THAT(error_of([&] { load_corpus(folder.path()); }), HasSubstr(" is empty; give"));
  std::filesystem::create_directories(folder / "bare/.git");
  EXPECT_EQ(error_of([&] { load_corpus(folder / "bare"); }),
            (folder / "bare").string() + " holds no files; give a folder with files");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { load_corpus(folder / "pipe"); }), HasSubstr("pipe is no regular file"));
  EXPECT_THAT(error_of([&] { load_corpus(folder / "empty/file"); }), HasSubstr("empty/file"));
}

TEST(TextCorpus, SaysWhatMayNotBeRead) {
  const TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  folder.write("a/file", "text");
  folder.write("b/file", "text");
  std::filesystem::permissions(folder / "a/file", std::filesystem::perms::none);
  std::filesystem::permissions(folder / "b", std::filesystem::perms::none);
  {
    const test::WithoutPrivileges guard;
    for (const char* name : {"a", "b", "a/file", "b/file"}) {
      EXPECT_THAT(error_of([&] { load_corpus(folder / name); }),
                  HasSubstr("cannot be read: Permission denied; check the path and the permissions"))
          << name;
    }
  }
  std::filesystem::permissions(folder / "b", std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace trilith
