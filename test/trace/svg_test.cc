#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/trace/notation.hpp>
#include <trilith/trace/svg.hpp>

#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

// Whether every element that opens closes in order, and text has no bare & or <. Not all of XML, but what
// svg() writes.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      const std::size_t end = xml.find(';', at);
      if (end == std::string::npos || end - at > 6) return false;
    }
    if (xml[at] == '>') return false;
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos || test::occurrences(tag, "\"") % 2 != 0) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end;
  }
  return open.empty();
}

TEST(Svg, IsWellFormedAndNeedsNothingElse) {
  for (const test::Drawn& d : test::all_drawn()) {
    const std::string svg = trace::svg(d.timeline);
    EXPECT_TRUE(well_formed(svg)) << trace::title(d.timeline);
    EXPECT_EQ(test::occurrences(svg, "http"), 1u);  // the name of the format
    EXPECT_EQ(svg.find("href"), std::string::npos);
  }
}

TEST(Svg, DrawsEveryActionOnceWithItsLabel) {
  for (const test::Drawn& d : test::all_drawn()) {
    const std::string svg = trace::svg(d.timeline);
    EXPECT_EQ(test::occurrences(svg, "<g class=\"block\">"), test::blocks(d.timeline));
    for (const trace::Lane& lane : d.timeline.lanes) {
      for (const trace::Block& block : lane.blocks) {
        for (const schedule::Action& action : block.actions) {
          std::size_t expected = 0;  // on as many ranks as have this action
          for (const schedule::Program& program : d.pipeline.programs) {
            for (const schedule::Action& other : program) {
              expected += other.pass == action.pass && other.microbatch == action.microbatch &&
                          other.chunk == action.chunk;
            }
          }
          const std::string label = trace::label(d.timeline, action);
          ASSERT_EQ(test::occurrences(svg, ">" + label + "</text>"), expected) << label;
        }
      }
    }
  }
}

TEST(Svg, HatchesChunksButTheFirst) {
  EXPECT_EQ(trace::svg(test::drawn<OneFOneB>(4, 8).timeline).find("url(#hatch"), std::string::npos);
  EXPECT_NE(trace::svg(test::drawn<ZeroBubbleV>(4, 8).timeline).find("url(#hatchF1)"), std::string::npos);
}

TEST(Svg, StaysWithinBoundsWhereCostsAreFarApart) {
  const std::string svg = trace::svg(test::drawn<ZeroBubbleH1>(2, 2, {1'000'000, 1, 1, 0}).timeline);
  const double width = std::stod(svg.substr(svg.find("width=\"") + 7));
  EXPECT_LT(width, 40'000);
}

TEST(Svg, EscapesNames) {
  const std::string svg = trace::svg(test::drawn<OneFOneB>(1, 1, {}, "<b>\"&'").timeline);
  EXPECT_TRUE(well_formed(svg));
  EXPECT_NE(svg.find("&lt;b&gt;&quot;&amp;&#39;"), std::string::npos);
}

}  // namespace
}  // namespace trilith
