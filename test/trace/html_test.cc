#include <cstddef>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <trilith/trace/html.hpp>
#include <trilith/trace/notation.hpp>

#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

using nlohmann::json;

// What the page draws.
json data_of(const std::string& html) {
  const std::string opening = "<script type=\"application/json\" id=\"data\">";
  const std::size_t start = html.find(opening) + opening.size();
  return json::parse(html.substr(start, html.find("</script>", start) - start));
}

TEST(Html, LoadsNothing) {
  const std::string html = trace::html(test::drawn<OneFOneB>(4, 8).timeline);
  for (const char* loading :
       {"http", "src=", "href", "url(", "@import", "import(", "fetch", "XMLHttpRequest"}) {
    EXPECT_EQ(html.find(loading), std::string::npos) << loading;
  }
}

TEST(Html, FillsEveryPlace) {
  const std::string html = trace::html(test::drawn<OneFOneB>(4, 8).timeline);
  for (const char* place : {"%TITLE%", "%FIGURES%", "%DATA%"}) EXPECT_EQ(html.find(place), std::string::npos);
  EXPECT_NE(html.find("<h1>OneFOneB, p=4, m=8</h1>"), std::string::npos);
}

TEST(Html, HasEveryBlockWithItsWordsAndWhatItWaitedFor) {
  for (const test::Drawn& d : test::all_drawn()) {
    const json data = data_of(trace::html(d.timeline));
    ASSERT_EQ(static_cast<int>(data["lanes"].size()), d.timeline.ranks());
    std::size_t parts = 0;
    for (int rank = 0; rank < d.timeline.ranks(); ++rank) {
      const trace::Lane& lane = d.timeline.lanes[rank];
      const json& drawn = data["lanes"][rank];
      ASSERT_EQ(drawn["blocks"].size(), lane.blocks.size());
      for (std::size_t i = 0; i < lane.blocks.size(); ++i) {
        const json& block = drawn["blocks"][i];
        parts += block["parts"].size();
        EXPECT_EQ(block["text"], trace::describe(d.timeline, rank, lane.blocks[i]));
        EXPECT_EQ(block["start"], lane.blocks[i].start);
        EXPECT_EQ(block["end"], lane.blocks[i].end);
        ASSERT_EQ(block.contains("from"), lane.blocks[i].last_input >= 0);
        if (block.contains("from")) {
          const trace::Message& message = d.timeline.messages[lane.blocks[i].last_input];
          EXPECT_EQ(block["from"], json({message.from, message.from_block}));
        }
        for (const json& part : block["parts"])
          EXPECT_TRUE(data["paints"].contains(part["pass"].get<std::string>()));
      }
      EXPECT_EQ(drawn["levels"].back()[1], 0);
      EXPECT_EQ(drawn["peak"], lane.peak);
    }
    EXPECT_EQ(parts, test::actions(d));
  }
}

TEST(Html, EscapesNames) {
  const std::string html = trace::html(test::drawn<OneFOneB>(1, 1, {}, "</title><script>%DATA%").timeline);
  EXPECT_EQ(html.find("</title><script>"), std::string::npos);
  EXPECT_NE(html.find("<h1>&lt;/title&gt;&lt;script&gt;%DATA%"), std::string::npos);
  EXPECT_NO_THROW(data_of(html));
}

}  // namespace
}  // namespace trilith
