#include <algorithm>
#include <cstddef>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <trilith/trace/notation.hpp>
#include <trilith/trace/terminal.hpp>

#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

TEST(Terminal, DrawsOneLineForEachRank) {
  EXPECT_EQ(trace::terminal(test::drawn<OneFOneB>(2, 2).timeline),
            "OneFOneB, p=2, m=2: makespan 9, bubble 1/3 (33.3 %) of all time, 1/2 (50.0 %) of busy time\n"
            "\n"
            "rank 0  F0 F1       B0---    B1---\n"
            "rank 1     F0 B0--- F1 B1---\n"
            "\n"
            "F forward, B backward, dashes: it goes on, blank: idle\n"
            "in flight at most: 2 1 microbatches\n");
}

TEST(Terminal, FusedActionsShareABlock) {
  const std::string text = trace::terminal(test::drawn<DualPipeV>(2, 4).timeline, {.width = 200});
  EXPECT_NE(text.find(" F3a&B1b---- "), std::string::npos) << text;
}

TEST(Terminal, HasEveryActionWhereTheLineIsLongEnough) {
  for (const test::Drawn& d : test::all_drawn()) {
    const std::string text = trace::terminal(d.timeline, {.width = 100'000});
    const std::regex action("[FBIW][0-9]+[a-z]?(?=[ &\\-\\n])");
    const std::string lines =
        text.substr(text.find("\n\n"), text.find("\n\n", text.find("\n\n") + 2) - text.find("\n\n") + 1);
    const auto found =
        std::distance(std::sregex_iterator(lines.begin(), lines.end(), action), std::sregex_iterator());
    EXPECT_EQ(static_cast<std::size_t>(found), test::actions(d)) << text;
  }
}

TEST(Terminal, KeepsWithinTheWidth) {
  const trace::Timeline timeline = test::drawn<OneFOneB>(16, 64).timeline;
  for (const int width : {40, 80, 133}) {
    std::istringstream text(trace::terminal(timeline, {.width = width}));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("rank ")) {
        EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
      }
    }
  }
}

TEST(Terminal, ColourChangesNoLetter) {
  for (const test::Drawn& d : test::all_drawn()) {
    const std::string plain = trace::terminal(d.timeline);
    const std::string coloured = trace::terminal(d.timeline, {.colour = true});
    EXPECT_EQ(plain.find('\033'), std::string::npos);
    EXPECT_NE(coloured.find('\033'), std::string::npos);
    EXPECT_EQ(std::regex_replace(coloured, std::regex("\033\\[[0-9;]*m"), ""), plain);
  }
}

}  // namespace
}  // namespace trilith
