// What an Error says: where, what, and what to do, each once.
#include <exception>
#include <stdexcept>
#include <type_traits>

#include <gtest/gtest.h>

#include <trilith/core/error.hpp>

namespace trilith {
namespace {

TEST(Error, SaysWhereThenWhatThenTheRemedy) {
  EXPECT_STREQ(Error("5 heads, TP=2", "make heads a multiple of TP", "rank 3").what(),
               "rank 3: 5 heads, TP=2; make heads a multiple of TP");
  EXPECT_STREQ(Error("5 heads, TP=2", "make heads a multiple of TP").what(),
               "5 heads, TP=2; make heads a multiple of TP");
  EXPECT_STREQ(Error("5 heads, TP=2", "").what(), "5 heads, TP=2");
}

TEST(Error, KeepsItsParts) {
  const Error error("problem", "remedy", "place");
  EXPECT_EQ(error.problem(), "problem");
  EXPECT_EQ(error.remedy(), "remedy");
  EXPECT_EQ(error.where(), "place");
}

TEST(Error, NamesTheFirstPlaceOnly) {
  const Error inner = Error("problem", "remedy").at("rank 1");
  EXPECT_STREQ(inner.what(), "rank 1: problem; remedy");
  EXPECT_STREQ(inner.at("the trainer").what(), "rank 1: problem; remedy");
}

TEST(Error, ShowsControlCharactersAsNumbers) {
  EXPECT_STREQ(Error("tensor \x1B[2Jé\n\x7F", "rename it").what(), "tensor \\x1B[2Jé\\x0A\\x7F; rename it");
}

TEST(Error, IsCaughtAsAStandardException) {
  static_assert(std::is_base_of_v<std::runtime_error, Error>);
  EXPECT_THROW(throw Error("problem", "remedy"), std::exception);
}

TEST(Require, ThrowsUnlessItHolds) {
  EXPECT_NO_THROW(require(true, "problem", "remedy"));
  try {
    require(false, "problem", "remedy");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "problem; remedy");
  }
}

}  // namespace
}  // namespace trilith
